/* One connection to a Redis server. Used by one thread at a time.
 *
 * hiredis writes commands and reads replies, and touches no descriptor: its own
 * reads and writes know no deadline for a whole reply (a server that sends a
 * byte now and then is waited for for ever), raise signals, and make
 * descriptors that programs inherit. */
#ifndef GLI_RENDEZVOUS_STORE_REDIS_CONNECTION_H
#define GLI_RENDEZVOUS_STORE_REDIS_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis.h>

#include "rendezvous/store/store_conn.h"

typedef struct gli_redis_connection gli_redis_connection;

/* Connects, at most until the deadline. `store` is what messages say ("the
 * Redis store at cache:6379"); it stays the caller's and must be there as long
 * as the connection. Errors: those of gli_store_conn_explain. */
gloo_status gli_redis_connection_open(const char *store,
                                      const struct sockaddr_storage *address,
                                      uint64_t deadline_ns,
                                      gli_redis_connection **connection,
                                      gloo_error *error);

/* A command: its name, and what belongs to it. */
enum { GLI_REDIS_WORDS = 8 };
typedef struct gli_redis_command {
  int n;
  const char *word[GLI_REDIS_WORDS];
  size_t bytes[GLI_REDIS_WORDS];
} gli_redis_command;

/* Adds a word with the given length, or up to its terminator. Words are not
 * copied. */
void gli_redis_put(gli_redis_command *command, const void *data, size_t bytes);
void gli_redis_put_text(gli_redis_command *command, const char *text);

/* Put a command at the end of what is to be sent; receiving sends it. It is
 * copied. */
gloo_status gli_redis_connection_send(gli_redis_connection *connection,
                                      const gli_redis_command *command,
                                      gloo_error *error);
/* How much waits to be sent. */
size_t gli_redis_connection_unsent(const gli_redis_connection *connection);

/* The next reply, one for each command in their order: a string, an integer,
 * nil, a status or an error, and nothing else; for freeReplyObject. When it
 * fails (as above, or GLOO_ERR_PROTOCOL), the connection is of no further use;
 * close it. */
gloo_status gli_redis_connection_receive(gli_redis_connection *connection,
                                         uint64_t deadline_ns,
                                         redisReply **reply, gloo_error *error);

/* Waits until then, with no command under way. Returns false if the server has
 * closed the connection, or speaks without having been asked: receiving says
 * which. */
bool gli_redis_connection_rests(gli_redis_connection *connection,
                                uint64_t until_ns);

void gli_redis_connection_close(gli_store_conn *connection);
/* In a forked child: the connection stays the parent's. */
void gli_redis_connection_abandon(gli_store_conn *connection);

#endif
