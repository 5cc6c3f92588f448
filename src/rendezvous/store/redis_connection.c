#include "rendezvous/store/redis_connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gloo_c/store.h"

/* Size limit of a reply: a value and its head. */
#define REPLY_MAX (GLOO_STORE_VALUE_MAX + 1024)
#define PIECE_BYTES ((size_t)64 << 10) /* size of one read */

static const gli_store_words redis_words = {
    .kind = "a Redis server",
    .early = "it is not a Redis server, or rejects this client",
    .closed = "the server has exited, or rejects this client",
};

struct gli_redis_connection {
  gli_store_conn base; /* `out` points into `text` */
  redisReader *reader;
  redisReplyObjectFunctions functions;
  size_t fed; /* bytes given to the reader since the last reply */
  char *text; /* commands to be sent */
  size_t text_room;
  char piece[PIECE_BYTES];
};

/* ---- open and close ------------------------------------------------------ */

/* Refuses a reply with elements. No command has one, and memory for the number
 * that a server claims is never allocated. */
#if HIREDIS_MAJOR < 1
static void *redis_refuse_array(const redisReadTask *task, int elements) {
#else
static void *redis_refuse_array(const redisReadTask *task, size_t elements) {
#endif
  (void)elements;
  gli_store_conn_fail(task->privdata, GLI_CONN_NONSENSE);
  return NULL;
}

gloo_status gli_redis_connection_open(const char *store,
                                      const struct sockaddr_storage *address,
                                      uint64_t deadline_ns,
                                      gli_redis_connection **connection,
                                      gloo_error *error) {
  gli_redis_connection *self = calloc(1, sizeof *self);
  redisReader *reader = redisReaderCreate();
  if (self == NULL || reader == NULL) {
    if (reader != NULL) redisReaderFree(reader);
    free(self);
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for a connection to %s", store);
  }
  gli_store_conn_init(&self->base, &redis_words, store, address);
  self->reader = reader;
  self->functions = *reader->fn;
  self->functions.createArray = redis_refuse_array;
  reader->fn = &self->functions;
  reader->privdata = &self->base;
  if (gli_store_conn_open(&self->base, deadline_ns)) {
    *connection = self;
    return GLOO_OK;
  }
  gloo_status status = gli_store_conn_explain(&self->base, error);
  gli_redis_connection_close(&self->base);
  return status;
}

void gli_redis_connection_close(gli_store_conn *connection) {
  gli_redis_connection *self = (gli_redis_connection *)connection;
  redisReaderFree(self->reader);
  free(self->text);
  gli_store_conn_free(connection);
}

void gli_redis_connection_abandon(gli_store_conn *connection) {
  gli_conn_forked(&connection->conn);
  gli_redis_connection_close(connection);
}

/* ---- commands ------------------------------------------------------------ */

void gli_redis_put(gli_redis_command *command, const void *data, size_t bytes) {
  command->word[command->n] = bytes > 0 ? data : "";
  command->bytes[command->n++] = bytes;
}

void gli_redis_put_text(gli_redis_command *command, const char *text) {
  gli_redis_put(command, text, strlen(text));
}

/* Makes room for `bytes` more bytes. Returns false if there is no memory. */
static bool redis_make_room(gli_redis_connection *self, size_t bytes) {
  gli_store_conn *base = &self->base;
  if (base->out_sent == base->out_bytes) base->out_sent = base->out_bytes = 0;
  if (self->text_room - base->out_bytes >= bytes) return true;
  char *text = realloc(self->text, base->out_bytes + bytes);
  if (text == NULL) return false;
  self->text = text;
  self->text_room = base->out_bytes + bytes;
  return true;
}

gloo_status gli_redis_connection_send(gli_redis_connection *self,
                                      const gli_redis_command *command,
                                      gloo_error *error) {
  gli_store_conn *base = &self->base;
  char *text = NULL;
  long long bytes = redisFormatCommandArgv(
      &text, command->n, (const char **)command->word, command->bytes);
  bool fits = bytes > 0 && redis_make_room(self, (size_t)bytes);
  if (fits) {
    memcpy(self->text + base->out_bytes, text, (size_t)bytes);
    base->out = (const uint8_t *)self->text;
    base->out_bytes += (size_t)bytes;
  }
  if (bytes > 0) redisFreeCommand(text);
  if (fits) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "no memory for a request to %s", base->name);
}

size_t gli_redis_connection_unsent(const gli_redis_connection *self) {
  return self->base.out_bytes - self->base.out_sent;
}

/* ---- replies ------------------------------------------------------------- */

static bool redis_read_some(gli_redis_connection *self) {
  size_t n = gli_store_conn_receive(&self->base, self->piece, PIECE_BYTES);
  self->fed += n;
  if (n > 0 && redisReaderFeed(self->reader, self->piece, n) != REDIS_OK)
    gli_store_conn_fail(&self->base, ENOMEM);
  return !gli_store_conn_ended(&self->base);
}

/* Parses the next reply from the received bytes; NULL if it is incomplete. */
static redisReply *redis_next_reply(gli_redis_connection *self) {
  void *reply = NULL;
  if (redisReaderGetReply(self->reader, &reply) != REDIS_OK)
    gli_store_conn_fail(&self->base, self->reader->err == REDIS_ERR_OOM
                                         ? ENOMEM
                                         : GLI_CONN_NONSENSE);
  if (reply != NULL) {
    self->fed = 0;
  } else if (self->fed > REPLY_MAX + PIECE_BYTES) {
    gli_store_conn_fail(&self->base, GLI_CONN_NONSENSE);
  }
  return reply;
}

gloo_status gli_redis_connection_receive(gli_redis_connection *self,
                                         uint64_t deadline_ns,
                                         redisReply **reply,
                                         gloo_error *error) {
  gli_store_conn *base = &self->base;
  redisReply *got = redis_next_reply(self);
  if (got == NULL) gli_store_conn_flush(base, deadline_ns);
  while (got == NULL && redis_read_some(self)) got = redis_next_reply(self);
  /* An idle connection keeps no large buffer. */
  if (self->text_room > PIECE_BYTES && base->out_sent == base->out_bytes) {
    free(self->text);
    self->text = NULL;
    base->out_bytes = base->out_sent = self->text_room = 0;
  }
  if (got == NULL) return gli_store_conn_explain(base, error);
  *reply = got;
  return GLOO_OK;
}

bool gli_redis_connection_rests(gli_redis_connection *self, uint64_t until_ns) {
  if (self->reader->pos < self->reader->len) return false; /* an extra reply */
  return gli_store_conn_rests(&self->base, until_ns);
}
