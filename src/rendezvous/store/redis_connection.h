/* One connection to a Redis server. One thread at a time uses it.
 *
 * hiredis formats commands and parses replies, but does no I/O. Its own reads
 * and writes have no deadline for a whole reply (a server could send a byte now
 * and then for any time), raise signals, and make descriptors that programs
 * inherit. */
#ifndef GLI_RENDEZVOUS_STORE_REDIS_CONNECTION_H
#define GLI_RENDEZVOUS_STORE_REDIS_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis.h>

#include "rendezvous/store/store_conn.h"

typedef struct gli_redis_connection gli_redis_connection;

/* Connects, until the deadline. `store` is the name for messages ("the Redis
 * store at cache:6379"); it must stay valid as long as the connection. Errors:
 * those of gli_store_conn_explain. */
gloo_status gli_redis_connection_open(const char *store,
                                      const struct sockaddr_storage *address,
                                      uint64_t deadline_ns,
                                      gli_redis_connection **connection,
                                      gloo_error *error);

/* A command: its name and arguments. */
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

/* Appends a copy of a command to the output; receiving sends it. */
gloo_status gli_redis_connection_send(gli_redis_connection *connection,
                                      const gli_redis_command *command,
                                      gloo_error *error);
/* Returns the number of bytes to be sent. */
size_t gli_redis_connection_unsent(const gli_redis_connection *connection);

/* Receives the next reply. Replies have the order of the commands, and are a
 * string, an integer, nil, a status or an error; free them with
 * freeReplyObject. After a failure (as above, or GLOO_ERR_PROTOCOL) the
 * connection must be closed. */
gloo_status gli_redis_connection_receive(gli_redis_connection *connection,
                                         uint64_t deadline_ns,
                                         redisReply **reply, gloo_error *error);

/* Waits until `until_ns`, with no command pending. Returns false if the server
 * has closed the connection or sent an unsolicited reply; receive it to find
 * out. */
bool gli_redis_connection_rests(gli_redis_connection *connection,
                                uint64_t until_ns);

void gli_redis_connection_close(gli_store_conn *connection);
/* Frees the connection in a forked child: it stays open in the parent. */
void gli_redis_connection_abandon(gli_store_conn *connection);

#endif
