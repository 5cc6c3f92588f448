/* The exchange with a launcher by PMIx, with a correct library and with faulty
 * ones. Each rank is a process.
 * usage: test_pmix LIBRARY [patience], where LIBRARY begins with a slash */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "children.h"
#include "rendezvous/launch/pmi.h"

#define LONG INT64_C(20000000000)
#define SHORT INT64_C(300000000)

static const char *library;
static char prefix[64];

static int expect(bool good, const char *what, const gloo_error *error) {
  if (!good) fprintf(stderr, "# %s: %s\n", what, error->message);
  return good ? 0 : 1;
}
#define EXPECT(condition) \
  if (expect(condition, #condition, &error) != 0) return 1

typedef struct scene {
  const char *trick, *rank, *size, *text;
  int (*body)(const struct scene *scene);
  gloo_status status;
  const char *words[2];
  const char *calls; /* expected calls of the library, up to the exit */
} scene;

static int scene_main(int index, void *argument) {
  const scene *s = argument;
  (void)index;
  setenv("PMIX_NAMESPACE", "job-7", 1);
  setenv("PMIX_RANK", s->rank != NULL ? s->rank : "0", 1);
  setenv("PMIX_PREFIX", prefix, 1);
  if (s->trick != NULL) setenv("FAKE_TRICK", s->trick, 1);
  if (s->size != NULL) setenv("FAKE_SIZE", s->size, 1);
  if (s->text != NULL) setenv("FAKE_TEXT", s->text, 1);
  alarm(60);
  exit(s->body(s));
}

/* Plays the scene in a separate process. */
static void play(const scene *s) {
  int ends[2];
  char text[16], calls[64] = "";
  assert_int_equal(pipe(ends), 0);
  snprintf(text, sizeof text, "%d", ends[1]);
  setenv("FAKE_LOG", text, 1);
  scene copy = *s;
  pid_t pid = child_start(scene_main, 0, &copy);
  close(ends[1]);
  size_t used = 0;
  ssize_t n;
  while ((n = read(ends[0], calls + used, sizeof calls - 1 - used)) > 0)
    used += (size_t)n;
  close(ends[0]);
  int status = child_wait(pid);
  if (status != 0) fail_msg("%s: status %d", s->trick, status);
  if (s->calls != NULL) assert_string_equal(calls, s->calls);
}

/* ---- correct libraries --------------------------------------------------- */

static int told_twice(const scene *s) {
  gloo_error error = {.message = ""};
  gli_pmi_job job;
  char out[64];
  bool first = s->rank == NULL;
  EXPECT(gli_pmi_join(GLI_PMI_PMIX, LONG, &job, &error) == GLOO_OK);
  EXPECT(job.size == 3 && job.rank == (first ? 0 : 2));
  EXPECT(strcmp(job.name, "job-7") == 0);
  for (int i = 0; i < 2; i++) {
    EXPECT(gli_pmi_tell(GLI_PMI_PMIX, first ? "mine" : NULL, out, sizeof out,
                        LONG, &error) == GLOO_OK);
    EXPECT(strcmp(out, first ? "mine" : "a b=c\n") == 0);
  }
  return 0;
}

static void ranks_are_told(void **state) {
  (void)state;
  play(&(scene){.size = "3", .body = told_twice, .calls = "ispcfpcfe"});
  play(&(scene){.size = "3",
                .rank = "2",
                .text = "a b=c\n",
                .body = told_twice,
                .calls = "isfgfge"});
}

static int child_is_refused(const scene *s) {
  gloo_error error = {.message = ""};
  gli_pmi_job job;
  int status;
  (void)s;
  EXPECT(gli_pmi_join(GLI_PMI_PMIX, LONG, &job, &error) == GLOO_OK);
  pid_t pid = fork();
  if (pid == 0)
    exit(gli_pmi_join(GLI_PMI_PMIX, LONG, &job, NULL) == GLOO_ERR_FORKED ? 0
                                                                         : 1);
  EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
  return 0;
}

static void forked_children_are_refused(void **state) {
  (void)state;
  play(&(scene){.body = child_is_refused, .calls = "ise"});
}

/* ---- failures and invalid answers ---------------------------------------- */

static int refused(const scene *s) {
  gloo_error error = {.message = ""}, again = {.message = ""};
  char out[64] = "kept";
  const char *text = s->rank == NULL ? "mine" : NULL;
  int64_t patience = s->status == GLOO_ERR_TIMEOUT ? SHORT : LONG;
  EXPECT(gli_pmi_tell(GLI_PMI_PMIX, text, out, sizeof out, patience, &error) ==
         s->status);
  EXPECT(strcmp(out, "kept") == 0);
  for (int i = 0; i < 2 && s->words[i] != NULL; i++)
    EXPECT(strstr(error.message, s->words[i]) != NULL);
  EXPECT(gli_pmi_tell(GLI_PMI_PMIX, text, out, sizeof out, LONG, &again) ==
         s->status);
  EXPECT(strcmp(error.message, again.message) == 0);
  return 0;
}

static const scene scenes[] = {
    {.trick = "init fails",
     .status = GLOO_ERR_PEER,
     .words = {"PMIx_Init", "OUT OF ORDER (-25)"},
     .calls = "i"},
    {.trick = "alone", .status = GLOO_ERR_PROTOCOL, .words = {"PMIx_Init"}},
    {.trick = "no end", .status = GLOO_ERR_PROTOCOL, .words = {"PMIx_Init"}},
    {.trick = "size fails", .status = GLOO_ERR_PEER, .words = {"job's size"}},
    {.trick = "no size", .status = GLOO_ERR_PROTOCOL, .words = {"job's size"}},
    {.trick = "size is text",
     .status = GLOO_ERR_PROTOCOL,
     .words = {"job's size"}},
    {.size = "0", .status = GLOO_ERR_PROTOCOL, .words = {"job's size"}},
    {.size = "70000", .status = GLOO_ERR_PROTOCOL, .words = {"job's size"}},
    {.size = "2",
     .rank = "2",
     .status = GLOO_ERR_PROTOCOL,
     .words = {"job's size"}},
    {.trick = "put fails", .status = GLOO_ERR_PEER, .words = {"PMIx_Put"}},
    {.trick = "commit fails",
     .status = GLOO_ERR_PEER,
     .words = {"PMIx_Commit"}},
    {.trick = "fence fails",
     .status = GLOO_ERR_PEER,
     .words = {"PMIx_Fence", "exited before all ranks"},
     .calls = "ispcfe"},
    {.trick = "get fails",
     .rank = "1",
     .status = GLOO_ERR_PEER,
     .words = {"PMIx_Get"}},
    {.trick = "nothing",
     .rank = "1",
     .status = GLOO_ERR_PROTOCOL,
     .words = {"PMIx_Get"}},
    {.trick = "number",
     .rank = "1",
     .status = GLOO_ERR_PROTOCOL,
     .words = {"PMIx_Get"}},
    {.trick = "no text",
     .rank = "1",
     .status = GLOO_ERR_PROTOCOL,
     .words = {"PMIx_Get"}},
    {.trick = "long",
     .rank = "1",
     .status = GLOO_ERR_PROTOCOL,
     .words = {"PMIx_Get"}},
    {.text = "this text has more bytes than rank 1 has room for, which are 64, "
             "isn't it?",
     .rank = "1",
     .status = GLOO_ERR_PROTOCOL,
     .words = {"too long"}},
    /* The library is not called again, not even at exit. */
    {.trick = "init hangs",
     .status = GLOO_ERR_TIMEOUT,
     .words = {"PMIx_Init"},
     .calls = "i"},
    {.trick = "fence hangs",
     .status = GLOO_ERR_TIMEOUT,
     .words = {"not all 2 ranks of the job 'job-7'", "gloo_init"},
     .calls = "ispcf"},
};

static void what_fails_is_told_once_and_for_all(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
    scene s = scenes[i];
    s.body = refused;
    if (s.trick == NULL) s.trick = "";
    play(&s);
  }
}

static int without_name(const scene *s) {
  gloo_error error = {.message = ""};
  gli_pmi_job job;
  char name[400];
  (void)s;
  unsetenv("PMIX_NAMESPACE");
  EXPECT(gli_pmi_join(GLI_PMI_PMIX, LONG, &job, &error) == GLOO_ERR_INVALID);
  EXPECT(strstr(error.message, "PMIX_NAMESPACE is not set") != NULL);
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  setenv("PMIX_NAMESPACE", name, 1);
  EXPECT(gli_pmi_join(GLI_PMI_PMIX, LONG, &job, &error) == GLOO_ERR_INVALID);
  return 0;
}

static void the_job_needs_a_name(void **state) {
  (void)state;
  play(&(scene){.body = without_name, .calls = ""});
}

/* ---- patience ------------------------------------------------------------ */

static int ends_late(const scene *s) {
  gloo_error error = {.message = ""};
  gli_pmi_job job;
  (void)s;
  EXPECT(gli_pmi_join(GLI_PMI_PMIX, LONG, &job, &error) == GLOO_OK);
  return 0;
}

static void a_launcher_that_is_stopped_holds_up_the_end_for_seconds(
    void **state) {
  (void)state;
  uint64_t begun = uv_hrtime();
  play(&(scene){.trick = "finalize hangs", .body = ends_late, .calls = "ise"});
  assert_true(uv_hrtime() - begun < UINT64_C(15000000000));
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_are_told),
      cmocka_unit_test(forked_children_are_refused),
      cmocka_unit_test(what_fails_is_told_once_and_for_all),
      cmocka_unit_test(the_job_needs_a_name),
  };
  const struct CMUnitTest patience[] = {
      cmocka_unit_test(a_launcher_that_is_stopped_holds_up_the_end_for_seconds),
  };
  char path[128];
  if (argc < 2) return 2;
  library = argv[1];
  /* Location of the library in Open MPI's packages for Python. */
  strcpy(prefix, "/tmp/test_pmix-XXXXXX");
  if (mkdtemp(prefix) == NULL) return 2;
  snprintf(path, sizeof path, "%s/lib", prefix);
  if (mkdir(path, 0700) != 0) return 2;
  snprintf(path, sizeof path, "%s/lib/openmpi", prefix);
  if (mkdir(path, 0700) != 0) return 2;
#if defined(__APPLE__)
  snprintf(path, sizeof path, "%s/lib/openmpi/libpmix.2.dylib", prefix);
#else
  snprintf(path, sizeof path, "%s/lib/openmpi/libpmix.so.2", prefix);
#endif
  if (symlink(library, path) != 0) return 2;
  int failed =
      argc > 2
          ? cmocka_run_group_tests_name("pmix_patience", patience, NULL, NULL)
          : cmocka_run_group_tests_name("pmix", tests, NULL, NULL);
  unlink(path);
  snprintf(path, sizeof path, "%s/lib/openmpi", prefix);
  rmdir(path);
  snprintf(path, sizeof path, "%s/lib", prefix);
  rmdir(path);
  rmdir(prefix);
  return failed;
}
