#include "observe/observe_answer.h"

#include <string.h>

#include "observe/metrics.h"
#include "observe/observe_client.h"
#include "observe/trace.h"

/* Later contexts are answered like GLI_OBSERVE_NOW. */
#define ANSWER_BYTES_MOST (64L << 20)

gli_observe_question gli_observe_question_read(const char *path) {
  static const char *const paths[] = {"/metrics", "/trace", "/now"};
  int i = 0;
  while (i < GLI_OBSERVE_NONE && strcmp(path, paths[i]) != 0) i++;
  return (gli_observe_question)i;
}

void gli_observe_answer_begin(FILE *to, gli_observe_question question) {
  if (question == GLI_OBSERVE_NONE) {
    gli_observe_client_head(to, "404 Not Found", "text/plain");
    fputs("there are /metrics, /trace and /now\n", to);
    return;
  }
  gli_observe_client_head(
      to, "200 OK",
      question == GLI_OBSERVE_METRICS ? GLI_METRICS_TYPE : "application/json");
}

bool gli_observe_answer(FILE *to, gli_observe_question question,
                        gloo_context *context) {
  if (question == GLI_OBSERVE_NONE) return true;
  if (question == GLI_OBSERVE_METRICS) return gli_metrics_print(to, context);
  gli_snapshot *snapshot = gli_context_snapshot(context);
  if (snapshot == NULL) return false;
  if (question == GLI_OBSERVE_NOW || ftell(to) > ANSWER_BYTES_MOST)
    gli_snapshot_forget_ended(snapshot);
  gli_trace_print(to, snapshot, GLI_TRACE_OF_READER);
  gli_snapshot_free(snapshot);
  return true;
}
