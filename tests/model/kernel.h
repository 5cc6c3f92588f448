/* Replaces the operating system and connection set-up: the functions that
 * poll.c, shm_wait.c, shm_send.c, shm_receive.c and shm_pair.c call. */
#ifndef GLI_TESTS_MODEL_KERNEL_H
#define GLI_TESTS_MODEL_KERNEL_H

#include "transport_shm/shm.h"

enum { HEAP_BYTES = 2048, LIVENESS = 100, UP_LOCK = 1 };

typedef struct host {
  gli_shm t;
  gli_shm_pair pair;
  gli_shm_pair *up[1];
  uint32_t owed;
} host;

typedef struct heap {
  size_t used;
  _Alignas(16) uint8_t bytes[HEAP_BYTES];
} heap;

/* Two connected endpoints with a ring in each direction. Descriptors are bell
 * numbers. */
void host_set_up(host *h, int process, gli_shm_page *pages[2],
                 const gli_upcalls *upcalls);
/* Defined by the scenes. */
host *host_of_thread(void);
heap *heap_of_thread(void);

/* Called in place of the C library's functions (compiler options). */
int model_close(int fd);
void *model_malloc(size_t bytes);
void model_free(void *memory);

#endif
