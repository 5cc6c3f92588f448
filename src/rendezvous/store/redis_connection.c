#include "rendezvous/store/redis_connection.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/descriptor.h"
#include "core/lack.h"
#include "core/signals.h"
#include "gloo_c/store.h"
#include "net/channel.h"
#include "net/tcp_address.h"

/* The most bytes of a reply: a value and its head. */
#define REPLY_MAX (GLOO_STORE_VALUE_MAX + 1024)
#define PIECE_BYTES ((size_t)64 << 10) /* read at once */

/* A failing call leaves its errno in `failure`; what is no error of the system
 * has a code of its own. */
enum { FINE = 0, OUT_OF_TIME = -1, BROKEN_REPLY = -2, ENDED = -3 };

struct gli_redis_connection {
  void *next;
  const char *store;
  gli_channel channel;
  int failure;
  struct sockaddr_storage address;
  redisReader *reader;
  redisReplyObjectFunctions functions;
  size_t fed; /* bytes that the reader has had since the last reply */
  char *out;  /* commands: sent up to out_sent */
  size_t out_bytes, out_sent, out_room;
  char piece[PIECE_BYTES];
};

static void redis_fail_with(gli_redis_connection *self, int code) {
  if (self->failure == FINE) self->failure = code;
}

static gloo_status redis_connection_explain(const gli_redis_connection *self,
                                            gloo_error *error) {
  if (self->failure > 0 && gli_lacking(self->failure))
    return gli_fail(error, gli_lack_status(self->failure), -1,
                    "cannot talk to %s: %s", self->store,
                    gli_lack_text(self->failure));
  switch (self->failure) {
    case OUT_OF_TIME:
      return gli_fail(error, GLOO_ERR_PEER, -1, "%s did not answer in time",
                      self->store);
    case BROKEN_REPLY:
      return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                      "%s sent a reply that makes no sense: check that a Redis "
                      "server is what answers there",
                      self->store);
    case EBADMSG:
      return gli_fail(error, GLOO_ERR_AUTH, -1, "%s %s", self->store,
                      gli_tls_why(self->channel.tls));
    case ENDED:
    case ECONNRESET:
    case EPIPE:
      return gli_fail(error, GLOO_ERR_PEER, -1,
                      "%s closed the connection: the server has ended, or "
                      "does not want this client",
                      self->store);
    default:
      return gli_fail(error, GLOO_ERR_PEER, -1, "%s cannot be reached (%s): %s",
                      self->store, gli_tcp_address_name(&self->address).text,
                      uv_strerror(uv_translate_sys_error(self->failure)));
  }
}

/* ---- open and close ------------------------------------------------------ */

/* No command has a reply with parts: memory for as many as a server says there
 * are is never taken. */
#if HIREDIS_MAJOR < 1
static void *redis_refuse_array(const redisReadTask *task, int elements) {
#else
static void *redis_refuse_array(const redisReadTask *task, size_t elements) {
#endif
  (void)elements;
  redis_fail_with(task->privdata, BROKEN_REPLY);
  return NULL;
}

gloo_status gli_redis_connection_open(const char *store,
                                      const struct sockaddr_storage *address,
                                      uint64_t deadline_ns,
                                      gli_redis_connection **connection,
                                      gloo_error *error) {
  gli_redis_connection *self = calloc(1, sizeof *self);
  if (self == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for a connection to %s", store);
  self->store = store;
  self->address = *address;
  self->channel.fd = -1;
  self->reader = redisReaderCreate();
  if (self->reader == NULL) {
    redis_fail_with(self, ENOMEM);
    goto failed;
  }
  self->functions = *self->reader->fn;
  self->functions.createArray = redis_refuse_array;
  self->reader->fn = &self->functions;
  self->reader->privdata = self;
  self->channel.fd = gli_socket_open(address->ss_family, SOCK_STREAM);
  redis_fail_with(self, self->channel.fd < 0
                            ? errno
                            : gli_store_socket_connect(self->channel.fd,
                                                       address, deadline_ns));
  if (self->failure != FINE) goto failed;
  gli_store_socket_tune(self->channel.fd);
  *connection = self;
  return GLOO_OK;

failed:;
  gloo_status status = redis_connection_explain(self, error);
  gli_redis_connection_abandon(self);
  return status;
}

gloo_status gli_redis_connection_secure(gli_redis_connection *self,
                                        gli_tls_settings *settings,
                                        const char *host, uint64_t deadline_ns,
                                        gloo_error *error) {
  int code = gli_channel_secure(&self->channel, settings, NULL, host,
                                &self->address, deadline_ns, error);
  if (code == EPROTO) return error->status;
  redis_fail_with(self, code);
  return code == 0 ? GLOO_OK : redis_connection_explain(self, error);
}

void gli_redis_connection_abandon(gli_redis_connection *self) {
  gli_channel_close(&self->channel);
  if (self->reader != NULL) redisReaderFree(self->reader);
  free(self->out);
  free(self);
}

/* A copy in a forked child must not keep the connection. */
void gli_redis_connection_close(gli_redis_connection *self) {
  (void)shutdown(self->channel.fd, SHUT_RDWR);
  gli_redis_connection_abandon(self);
}

void **gli_redis_connection_next(gli_redis_connection *self) {
  return &self->next;
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
  if (self->out_sent == self->out_bytes) self->out_sent = self->out_bytes = 0;
  if (self->out_room - self->out_bytes >= bytes) return true;
  char *out = realloc(self->out, self->out_bytes + bytes);
  if (out == NULL) return false;
  self->out = out;
  self->out_room = self->out_bytes + bytes;
  return true;
}

gloo_status gli_redis_connection_send(gli_redis_connection *self,
                                      const gli_redis_command *command,
                                      gloo_error *error) {
  char *text = NULL;
  long long bytes = redisFormatCommandArgv(
      &text, command->n, (const char **)command->word, command->bytes);
  bool fits = bytes > 0 && redis_make_room(self, (size_t)bytes);
  if (fits) {
    memcpy(self->out + self->out_bytes, text, (size_t)bytes);
    self->out_bytes += (size_t)bytes;
  }
  if (bytes > 0) redisFreeCommand(text);
  if (fits) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "no memory for a request to %s", self->store);
}

size_t gli_redis_connection_unsent(const gli_redis_connection *self) {
  return self->out_bytes - self->out_sent;
}

/* ---- replies ------------------------------------------------------------- */

static void redis_write_some(gli_redis_connection *self) {
  ssize_t n = gli_channel_send(&self->channel, self->out + self->out_sent,
                               self->out_bytes - self->out_sent);
  if (n >= 0) {
    self->out_sent += (size_t)n;
  } else if (errno == EPIPE || errno == ECONNRESET) {
    /* A server that closes may have sent its reason: read that first. */
    self->out_sent = self->out_bytes;
  } else if (!gli_would_block(errno)) {
    redis_fail_with(self, errno);
  }
}

static void redis_read_some(gli_redis_connection *self) {
  ssize_t n = gli_channel_receive(&self->channel, self->piece, PIECE_BYTES);
  if (n < 0 && gli_would_block(errno)) return;
  if (n <= 0) {
    redis_fail_with(self, n < 0 ? errno : ENDED);
    return;
  }
  self->fed += (size_t)n;
  if (redisReaderFeed(self->reader, self->piece, (size_t)n) != REDIS_OK)
    redis_fail_with(self, ENOMEM);
}

/* The next reply out of what has come; NULL: it is not all there. */
static redisReply *redis_next_reply(gli_redis_connection *self) {
  void *reply = NULL;
  if (redisReaderGetReply(self->reader, &reply) != REDIS_OK)
    redis_fail_with(self,
                    self->reader->err == REDIS_ERR_OOM ? ENOMEM : BROKEN_REPLY);
  if (reply != NULL) {
    self->fed = 0;
  } else if (self->fed > REPLY_MAX + PIECE_BYTES) {
    redis_fail_with(self, BROKEN_REPLY);
  }
  return reply;
}

static redisReply *redis_exchange(gli_redis_connection *self,
                                  uint64_t deadline_ns) {
  redisReply *reply = NULL;
  if (gli_redis_connection_unsent(self) > 0) redis_write_some(self);
  while (self->failure == FINE && reply == NULL) {
    bool unsent = gli_redis_connection_unsent(self) > 0;
    redis_fail_with(
        self, gli_channel_wait(&self->channel,
                               unsent ? (short)(POLLIN | POLLOUT) : POLLIN,
                               deadline_ns));
    if (self->failure != FINE) return NULL;
    if (unsent) redis_write_some(self);
    redis_read_some(self);
    if (self->failure == FINE) reply = redis_next_reply(self);
  }
  return reply;
}

gloo_status gli_redis_connection_receive(gli_redis_connection *self,
                                         uint64_t deadline_ns,
                                         redisReply **reply,
                                         gloo_error *error) {
  redisReply *got = redis_next_reply(self);
  if (got == NULL && self->failure == FINE) {
    gli_signal_guard guard;
    gli_signal_guard_enter(&guard);
    got = redis_exchange(self, deadline_ns);
    gli_signal_guard_leave(&guard);
  }
  /* An idle connection keeps no large buffer. */
  if (self->out_room > PIECE_BYTES && self->out_sent == self->out_bytes) {
    free(self->out);
    self->out = NULL;
    self->out_bytes = self->out_sent = self->out_room = 0;
  }
  if (got == NULL) return redis_connection_explain(self, error);
  *reply = got;
  return GLOO_OK;
}

bool gli_redis_connection_rest(gli_redis_connection *self, uint64_t until_ns) {
  if (self->reader->pos < self->reader->len) return false; /* one too many */
  return gli_channel_wait(&self->channel, POLLIN, until_ns) == -1;
}
