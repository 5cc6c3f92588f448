/* Processes for tests: each runs a function and reports a sentence when it
 * fails. They do not use cmocka. */
#ifndef TESTS_RENDEZVOUS_CHILDREN_H
#define TESTS_RENDEZVOUS_CHILDREN_H

#include <stdint.h>
#include <sys/types.h>

#define CHILDREN 4

/* What the parent tells its children once it knows, e.g. a port. */
typedef struct go_signal {
  int read_end, write_end;
} go_signal;

void go_open(go_signal *go);
/* In the parent, once for all children; and in each child. */
void go_send(go_signal *go, uint16_t word);
uint16_t go_await(go_signal *go);
void go_close(go_signal *go);

/* Fork a process that runs body(index, argument) and exits with its result, 0
 * being success. */
pid_t child_start(int (*body)(int index, void *argument), int index,
                  void *argument);

/* Its exit status; 1000 + number of the signal that ended it. */
int child_wait(pid_t pid);

#endif
