/* Ownership of processes in user namespaces of several kinds. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/user.h"

enum { NOBODY = 65534 }; /* the overflow user, unless configured otherwise */

static void one_is_own_and_so_is_root(void **state) {
  const gli_user some = {1000, GLI_USER_NONE}, contained = {1000, NOBODY},
                 unknown = {GLI_USER_NONE, NOBODY},
                 nobody = {NOBODY, GLI_USER_NONE};
  (void)state;
  assert_true(gli_user_is_own(&some, 1000));
  assert_true(gli_user_is_own(&some, 0));
  assert_false(gli_user_is_own(&some, 1001));
  assert_false(gli_user_is_own(&some, GLI_USER_NONE));
  assert_true(gli_user_is_own(&nobody, NOBODY));
  assert_true(gli_user_is_own(&contained, 1000));
  assert_false(gli_user_is_own(&contained, NOBODY));
  assert_false(gli_user_is_own(&unknown, NOBODY));
  assert_false(gli_user_is_own(&unknown, GLI_USER_NONE));
}

static void a_socket_tells_its_peer_or_why_it_does_not(void **state) {
  int ends[2];
  int64_t process;
  uint32_t user;
  (void)state;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  assert_int_equal(gli_socket_peer(ends[0], &process, &user), 0);
  if (process != -1) assert_int_equal(process, getpid());
  assert_int_equal(user, geteuid());
  close(ends[0]);
  close(ends[1]);
  assert_int_equal(gli_socket_peer(-1, &process, &user), EBADF);
  assert_int_equal(process, -1);
  assert_true(user == GLI_USER_NONE);
}

#if GLI_LINUX

/* ---- namespaces ---------------------------------------------------------- */

/* One case: a process with user id `id` (0: its own) in a namespace with this
 * map (NULL: in no other namespace). */
typedef struct scene {
  const char *map;
  uint32_t id;
  gli_user told; /* if told.overflow is 1: unavailable, with errno in told.id */
} scene;

static void scene_in_child(const scene *s, int from, int to) {
  char byte;
  gli_user told = {0, 1};
  bool made = s->map == NULL || unshare(CLONE_NEWUSER) == 0;
  (void)!write(to, "", 1); /* the map is the parent's to write */
  (void)!read(from, &byte, 1);
  if (made && s->id != 0) made = setuid(s->id) == 0;
  told.id = (uint32_t)errno;
  if (made) told = gli_user_here();
  (void)!write(to, &told, sizeof told);
  _exit(0);
}

static void scene_write_map(const scene *s, pid_t child) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%d/uid_map", (int)child);
  FILE *file = s->map != NULL && s->map[0] != '\0' ? fopen(path, "w") : NULL;
  if (file == NULL) return;
  (void)fputs(s->map, file);
  (void)fclose(file);
}

static gli_user scene_play(const scene *s) {
  int to[2], from[2];
  char byte;
  gli_user told = {0, 1};
  assert_int_equal(pipe(to), 0);
  assert_int_equal(pipe(from), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) scene_in_child(s, to[0], from[1]);
  assert_int_equal(read(from[0], &byte, 1), 1);
  scene_write_map(s, child);
  assert_int_equal(write(to[1], "", 1), 1);
  assert_int_equal(read(from[0], &told, sizeof told), sizeof told);
  assert_int_equal(waitpid(child, NULL, 0), child);
  for (int i = 0; i < 2; i++) {
    close(to[i]);
    close(from[i]);
  }
  return told;
}

static void a_number_that_may_stand_for_others_is_nobodys(void **state) {
  static const scene scenes[] = {
      {NULL, NOBODY, {NOBODY, GLI_USER_NONE}},
      {"", 0, {GLI_USER_NONE, NOBODY}},
      {"0 0 1", 0, {0, NOBODY}},
      {"65534 0 1", 0, {GLI_USER_NONE, NOBODY}},
      {"0 0 65536", NOBODY, {GLI_USER_NONE, NOBODY}},
      {"0 0 4294967295", NOBODY, {NOBODY, GLI_USER_NONE}},
      {"0 0 65534\n65534 65534 4294901761", 0, {0, GLI_USER_NONE}},
  };
  (void)state;
  const gli_user here = gli_user_here();
  if (geteuid() != 0 || here.overflow != GLI_USER_NONE) {
    print_message("# skipped: it takes root of a whole host\n");
    skip();
  }
  for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
    const scene *s = &scenes[i];
    const gli_user told = scene_play(s);
    if (told.overflow == 1) {
      print_message("# skipped: user namespaces cannot be made here: %s\n",
                    strerror((int)told.id));
      skip();
    }
    if (told.id != s->told.id || told.overflow != s->told.overflow)
      fail_msg("map %s, user %u: %u, %u", s->map, s->id, told.id,
               told.overflow);
  }
}

#endif

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_is_own_and_so_is_root),
    cmocka_unit_test(a_socket_tells_its_peer_or_why_it_does_not),
#if GLI_LINUX
    cmocka_unit_test(a_number_that_may_stand_for_others_is_nobodys),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
