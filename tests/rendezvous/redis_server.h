/* A private Redis server at a free port of 127.0.0.1. It ends with the
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

/* Returns true if redis-server is installed. */
bool redis_server_installed(void);

/* Starts a server without persistence. `settings` are options of its command
 * line, ended by NULL. Returns when it answers. */
redis_server redis_server_start(const char *const *settings);
/* Starts a server at the port of `server`. Returns false if another process has
 * the port. */
bool redis_server_start_at(redis_server *server, const char *const *settings);
/* Sends SIGKILL, SIGSTOP or SIGCONT. After SIGKILL, waits for the process to
 * end. */
void redis_server_signal(redis_server *server, int number);

/* Returns the URL redis://USER:PASSWORD@127.0.0.1:PORT/PATH. The texts are not
 * copied. */
gli_store_url redis_url(uint16_t port, const char *user, const char *password,
                        const char *path);

/* Opens a store on that server. */
gloo_store *redis_open(uint16_t port, const char *path);

#endif
