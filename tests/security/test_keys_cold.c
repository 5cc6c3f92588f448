/* The first use of OpenSSL in a process; each case runs in a new process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <openssl/err.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "ranks/sanitized.h"
#include "security/keys.h"

enum { THREADS = 3, PATIENCE_S = 60 };

/* Runs `body` in a process. Returns its exit status, or 1000 + the signal that
 * ended it. SIGALRM ends a process that hangs. */
static int ended(int (*body)(void)) {
  int status = -1;
  pid_t child = fork();
  if (child == 0) {
    alarm(PATIENCE_S);
    _exit(body());
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static const gli_part part = {"message", 7};

static gloo_status make_tag(void) {
  uint8_t tag[GLI_TAG_BYTES];
  gli_key key;
  gli_mac *mac = NULL;
  gloo_status status = gli_key_extract("salt", 4, "secret", 6, &key, NULL);
  if (status == GLOO_OK) status = gli_mac_create(&key, &mac, NULL);
  if (status == GLOO_OK) status = gli_mac_tag(mac, &part, 1, tag, NULL);
  gli_mac_destroy(mac);
  return status;
}

static void nap(long ns) {
  (void)nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static void *make_tags(void *unused) {
  for (;;) {
    if (make_tag() != GLOO_OK) abort();
    nap(1000);
  }
  return unused;
}

/* ---- forks --------------------------------------------------------------- */

enum { MADE = 3, REFUSED = 4 };

/* On a busy machine the fork may not be able to wait until a thread has made
 * its key; the child then gets GLOO_ERR_FORKED. */
static int child_makes_tag(void) {
  gloo_status status = make_tag();
  if (status == GLOO_OK) return MADE;
  return status == GLOO_ERR_FORKED ? REFUSED : 1;
}

static int fork_beside_threads(void) {
  int made = 0;
  for (int i = 0; i < THREADS; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, make_tags, NULL) != 0) return 1;
  }
  for (int i = 0; i < 10; i++) {
    int how = ended(child_makes_tag);
    if (how != MADE && how != REFUSED) return 2;
    if (how == MADE) made++;
  }
  return made > 0 ? MADE : REFUSED;
}

/* The sanitizers of gcc 12 may leave their allocators locked in a child that is
 * forked while other threads allocate. */
static void children_of_busy_parents_make_keys(void **state) {
  int made = 0;
  (void)state;
  if (SANITIZED) return;
  for (int i = 0; i < 40; i++) {
    int how = ended(fork_beside_threads);
    if (how == MADE) made++;
    if (how != MADE) assert_int_equal(how, REFUSED);
  }
  assert_true(made > 0);
}

/* ---- the end of a process ------------------------------------------------ */

static int begun[2]; /* a pipe */

static void *make_tags_and_tell(void *unused) {
  if (make_tag() != GLOO_OK || write(begun[1], "", 1) != 1) abort();
  return make_tags(unused);
}

/* Runs at exit after the handlers that OpenSSL may have registered. */
static void take_long_to_end(void) {
  nap(20000000);
}

static int exit_beside_threads(void) {
  char byte;
  if (atexit(take_long_to_end) != 0) return 1;
  for (int i = 0; i < THREADS; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, make_tags_and_tell, NULL) != 0) return 1;
    if (read(begun[0], &byte, 1) != 1) return 1;
  }
  exit(7);
}

static void a_program_may_end_while_threads_make_keys(void **state) {
  (void)state;
  assert_int_equal(pipe(begun), 0);
  for (int i = 0; i < 40; i++) assert_int_equal(ended(exit_beside_threads), 7);
  close(begun[0]);
  close(begun[1]);
}

/* ---- a system without SHA-256 -------------------------------------------- */

static int use_odd_configuration(void) {
  gli_key key;
  gli_mac *mac;
  gloo_error e;
  ERR_raise(ERR_LIB_USER, 1); /* an error of the program */
  if (gli_key_extract("salt", 4, "secret", 6, &key, &e) != GLOO_ERR_UNSUPPORTED)
    return 1;
  if (strstr(e.message, "a key from the job secret: ") == NULL ||
      strstr(e.message, "openssl.cnf") == NULL)
    return 2;
  if (gli_mac_create(&(gli_key){{1}}, &mac, &e) != GLOO_ERR_UNSUPPORTED)
    return 3;
  if (ERR_GET_LIB(ERR_get_error()) != ERR_LIB_USER) return 4;
  return ERR_get_error() == 0 ? 0 : 5;
}

/* An OpenSSL that is part of a program may read no configuration. */
static void a_configuration_without_sha256_is_named(void **state) {
  char name[] = "/tmp/gloo_c-openssl-XXXXXX";
  (void)state;
#if defined(OPENSSL_NO_AUTOLOAD_CONFIG)
  skip();
#endif
  int fd = mkstemp(name);
  FILE *file = fdopen(fd, "w");
  assert_non_null(file);
  fputs(
      "openssl_conf = all\n[all]\nproviders = list\n[list]\nnull = one\n"
      "[one]\nactivate = 1\n",
      file);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(setenv("OPENSSL_CONF", name, 1), 0);
  int status = ended(use_odd_configuration);
  (void)unsetenv("OPENSSL_CONF");
  (void)unlink(name);
  assert_int_equal(status, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(children_of_busy_parents_make_keys),
      cmocka_unit_test(a_program_may_end_while_threads_make_keys),
      cmocka_unit_test(a_configuration_without_sha256_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
