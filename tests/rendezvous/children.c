#include "children.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

void go_open(go_signal *go) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  go->read_end = ends[0];
  go->write_end = ends[1];
}

void go_send(go_signal *go, uint16_t word) {
  for (int i = 0; i < CHILDREN; i++)
    assert_int_equal(write(go->write_end, &word, sizeof(word)), sizeof(word));
}

uint16_t go_await(go_signal *go) {
  uint16_t word = 0;
  if (read(go->read_end, &word, sizeof(word)) != sizeof(word)) _exit(99);
  return word;
}

void go_close(go_signal *go) {
  close(go->read_end);
  close(go->write_end);
}

pid_t child_start(int (*body)(int index, void *argument), int index,
                  void *argument) {
  fflush(stdout);
  fflush(stderr);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) _exit(body(index, argument));
  return pid;
}

int child_wait(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}
