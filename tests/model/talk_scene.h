/* Two processes with an endpoint each, used as by an engine with one thread:
 * post, poll, and sleep when a poll finds nothing. */
#ifndef GLI_TESTS_MODEL_TALK_SCENE_H
#define GLI_TESTS_MODEL_TALK_SCENE_H

#include "kernel.h"
#include "messages.h"

typedef struct talk_side {
  int n;
  int after;    /* message k is sent after `after` + k messages have arrived */
  uint8_t last; /* type of the last message, sent on leaving; 0: none */
  uint32_t lengths[MESSAGES_MAX];
} talk_side;

typedef struct talk_script {
  const char *name;
  uint32_t data_bytes, chunk;
  talk_side sides[2];
} talk_script;

typedef enum phase { POSTING, POLLING, SLEEPING } phase;

typedef struct process {
  struct process *self; /* the first member, as in all thread states */
  host host;
  int me;
  phase phase;
  bool failed, left, closed;
  int posted, sent, got;
  int waiters; /* waiting threads: see crew_scene.c */
  gli_header header;
  gli_send_request requests[MESSAGES_MAX];
  _Alignas(16) uint8_t data[MESSAGE_BYTES];
  heap heap;
} process;

bool process_may_post(const process *p);
void process_post(process *p);
bool process_turn(void *process);
/* Sets up the processes, without threads. */
void processes_set_up(const talk_script *script, process *both[2]);

void talk_scene_set_up(const talk_script *script);

#endif
