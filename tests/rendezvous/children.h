/* Child processes for tests: each runs a function and prints a sentence when it
 * fails. These functions do not use cmocka. */
#ifndef TESTS_RENDEZVOUS_CHILDREN_H
#define TESTS_RENDEZVOUS_CHILDREN_H

#include <stdint.h>
#include <sys/types.h>

#define CHILDREN 4

/* A number that the parent sends to its children when it is known, e.g. a
 * port. */
typedef struct go_signal {
  int read_end, write_end;
} go_signal;

void go_open(go_signal *go);
/* The parent calls go_send() once for all children, each child go_await(). */
void go_send(go_signal *go, uint16_t word);
uint16_t go_await(go_signal *go);
void go_close(go_signal *go);

/* Forks a process that runs body(index, argument) and exits with its result; 0
 * is success. */
pid_t child_start(int (*body)(int index, void *argument), int index,
                  void *argument);

/* Returns the exit status, or 1000 + the number of the signal that ended the
 * child. */
int child_wait(pid_t pid);

#endif
