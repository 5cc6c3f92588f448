/* A Redis server of one's own, at a free port of 127.0.0.1. It ends with the
 * program. */
#ifndef TESTS_RENDEZVOUS_REDIS_SERVER_H
#define TESTS_RENDEZVOUS_REDIS_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "gloo_c/store.h"
#include "rendezvous/store/store_url.h"

typedef struct redis_server {
  pid_t pid;
  uint16_t port;
} redis_server;

/* Is redis-server installed? */
bool redis_server_installed(void);

/* Start it, with settings as on its command line, up to NULL. It keeps nothing
 * in files. Returns when it answers. */
redis_server redis_server_start(const char *const *settings);
/* The same at the port that `server` has. False: another process has it. */
bool redis_server_start_at(redis_server *server, const char *const *settings);
/* SIGKILL, SIGSTOP, SIGCONT. After SIGKILL it is gone. */
void redis_server_signal(redis_server *server, int number);

/* redis://USER:PASSWORD@127.0.0.1:PORT/PATH. The texts are not copied. */
gli_store_url redis_url(uint16_t port, const char *user, const char *password,
                        const char *path);

/* A store there. */
gloo_store *redis_open(uint16_t port, const char *path);

#endif
