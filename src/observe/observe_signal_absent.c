/* Replacement on Windows, which has no signals to ask for a trace. */
#include "core/error.h"
#include "observe/observe_signal.h"

gloo_status gli_observe_signal_catch(int number, int pipe, char word,
                                     gloo_error *error) {
  (void)number;
  (void)pipe;
  (void)word;
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "GLOO_TRACE_SIGNAL has no effect on Windows, which has no "
                  "signals: unset it");
}

void gli_observe_signal_release(void) {}

void gli_observe_signal_forget(void) {}
