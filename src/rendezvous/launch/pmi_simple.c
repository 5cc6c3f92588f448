/* PMI-1: the process inherits one end of a socket, whose number is in PMI_FD. A
 * command is a line, and so is its answer. Only the barrier waits: a value put
 * before it can be got after it.
 *
 * MPICH's library uses the same socket when the program calls MPI_Init. To let
 * both use it in turn, no data is left in it between commands, no more is read
 * than the answer, and its flags do not change. docs/internals/launchers.md
 * describes the launchers' behaviour. */
#include "rendezvous/launch/pmi_kinds.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <uv.h>

#include "core/descriptor.h"
#include "core/environment.h"
#include "core/exhaustion.h"
#include "core/signals.h"
#include "core/text.h"
#include "rendezvous/launch/pmi_line.h"
#include "rendezvous/store/store.h"

#define LINE_BYTES 8192
/* Minimum of a launcher's limit on values; launchers have 1024 or more. */
#define VALUE_MIN ((uint64_t)64)
#define VALUE_MAX ((uint64_t)4096)
#define PIECES_MAX 256u

#define OTHER_WAYS                                                           \
  "start the program directly with the launcher, or set its rank and store " \
  "(GLOO_RANK, GLOO_SIZE, GLOO_STORE)"

static struct {
  int fd;
  bool guest;        /* true if MPI began the session, and ends it */
  size_t value_max;  /* maximum size of a value, with its terminator */
  gloo_error broken; /* first failure; GLOO_OK if there is none */
} simple = {.fd = -1};

/* ---- a line and its answer ----------------------------------------------- */

static gloo_status simple_lost(const char *command, int code,
                               gloo_error *error) {
  return gli_fail(error, GLOO_ERR_PEER, -1,
                  "the launcher does not answer '%s' on the socket PMI_FD: %s; "
                  "it has exited, or the program has called MPI_Finalize, "
                  "after which it no longer answers",
                  command,
                  code == 0 ? "closed by the launcher"
                            : uv_strerror(uv_translate_sys_error(code)));
}

/* Quotes a line of the launcher for messages. A value may contain the job's
 * secret, and is omitted. */
static gli_text simple_shown(const char *line) {
  char shown[LINE_BYTES];
  const char *value = strstr(line, "value=");
  size_t bytes = value != NULL ? (size_t)(value - line) + 6 : strlen(line);
  snprintf(shown, sizeof shown, "%.*s%s", (int)bytes, line,
           value != NULL ? "..." : "");
  return gli_quote(shown);
}

static gloo_status simple_nonsense(const char *command, const char *answer,
                                   gloo_error *error) {
  return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                  "the launcher's answer to '%s' on the socket PMI_FD is "
                  "invalid: '%s'; it does not speak PMI-1, or another part of "
                  "the program uses the socket at the same time",
                  command, simple_shown(answer).text);
}

/* Waits for one of `events`. Returns 0 or errno, also ETIMEDOUT. */
static int simple_wait(short events, uint64_t deadline_ns) {
  struct pollfd ready = {.fd = simple.fd, .events = events};
  for (;;) {
    int64_t left = gli_deadline_left(deadline_ns);
    int64_t ms = left < 0 ? -1 : left / 1000000 + (left % 1000000 != 0);
    int n = poll(&ready, 1, ms > INT_MAX ? INT_MAX : (int)ms);
    if (n > 0) return ready.revents & POLLNVAL ? EBADF : 0;
    if (n < 0 && errno != EINTR) return errno;
    if (gli_deadline_left(deadline_ns) == 0) return ETIMEDOUT;
  }
}

static int simple_send(const char *line, size_t bytes, uint64_t deadline_ns) {
  gli_signal_guard guard;
  int code = 0;
  gli_signal_guard_enter(&guard);
  while (bytes > 0 && code == 0) {
    code = simple_wait(POLLOUT, deadline_ns);
    if (code != 0) break;
    ssize_t n = send(simple.fd, line, bytes, MSG_DONTWAIT);
    if (n >= 0) {
      line += n;
      bytes -= (size_t)n;
    } else if (errno != EINTR && !gli_would_block(errno)) {
      code = errno;
    }
  }
  gli_signal_guard_leave(&guard);
  return code;
}

/* Receives one line, without its end. Returns 0, errno, -1 at the end of the
 * stream, or -2 for excess bytes, a missing end or a zero byte. */
static int simple_receive(char line[LINE_BYTES], uint64_t deadline_ns) {
  size_t used = 0;
  for (;;) {
    int code = simple_wait(POLLIN, deadline_ns);
    if (code != 0) return code;
    ssize_t n =
        recv(simple.fd, line + used, LINE_BYTES - 1 - used, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || gli_would_block(errno))) continue;
    if (n < 0) return errno;
    if (n == 0) return -1;
    used += (size_t)n;
    line[used] = '\0';
    size_t text = strcspn(line, "\n");
    if (text < used) {
      line[text] = '\0';
      return text + 1 == used && strlen(line) == text ? 0 : -2;
    }
    if (used == LINE_BYTES - 1) return -2;
  }
}

/* Sends a line and receives the answer. `command` is its name, for errors.
 * GLOO_ERR_TIMEOUT has no message. */
static gloo_status simple_exchange(const char *command, char *line,
                                   uint64_t deadline_ns, gloo_error *error) {
  int code = simple_send(line, strlen(line), deadline_ns);
  if (code == 0) code = simple_receive(line, deadline_ns);
  if (code == 0) return GLOO_OK;
  if (code == ETIMEDOUT) return GLOO_ERR_TIMEOUT;
  if (code == -2) return simple_nonsense(command, line, error);
  return simple_lost(command, code == -1 ? 0 : code, error);
}

/* Sends `line` and receives an answer of the given name into it. A failure is
 * permanent: later bytes may belong to this answer. */
static gloo_status simple_ask(const char *command, const char *answer,
                              char line[LINE_BYTES], uint64_t deadline_ns,
                              gloo_error *error) {
  char text[128] = "";
  gloo_status status =
      simple_exchange(command, line, deadline_ns, &simple.broken);
  if (status == GLOO_ERR_TIMEOUT) {
    gli_fail(&simple.broken, status, -1,
             "the launcher did not answer '%s' on the socket PMI_FD in time",
             command);
  } else if (status == GLOO_OK && (!gli_pmi_line_word(line, "cmd", text, 64) ||
                                   strcmp(text, answer) != 0)) {
    status = simple_nonsense(command, line, &simple.broken);
  } else if (status == GLOO_OK &&
             gli_pmi_line_word(line, "rc", text, sizeof text) &&
             strcmp(text, "0") != 0) {
    status = gli_fail(&simple.broken, GLOO_ERR_PROTOCOL, -1,
                      "the launcher refused '%s' on the socket PMI_FD: '%s'",
                      command, simple_shown(line).text);
  }
  if (status != GLOO_OK && error != NULL) *error = simple.broken;
  return status;
}

/* ---- joining ------------------------------------------------------------- */

static gloo_status simple_read_number(const char *name, const char *meaning,
                                      uint64_t min, uint64_t max,
                                      uint64_t *number, gloo_error *error) {
  const char *text = gli_environment_read(name);
  if (text != NULL && gli_pmi_number(text, max, number) && *number >= min)
    return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "the environment variable %s is %s%s%s, expected %s: a "
                  "number from %" PRIu64 " to %" PRIu64 ", as launchers set it",
                  name, text != NULL ? "'" : "",
                  text != NULL ? gli_quote(text).text : "not set",
                  text != NULL ? "'" : "", meaning, min, max);
}

/* Duplicates the descriptor, with FD_CLOEXEC. MPI_Finalize closes the original,
 * whose number may then be reused. Without FD_CLOEXEC a program that this one
 * starts could talk to the launcher in its place. */
static gloo_status simple_take(int fd, gloo_error *error) {
  struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
  int type = 0;
  socklen_t bytes = sizeof type, address_bytes = sizeof address;
  bool open = fcntl(fd, F_GETFD) >= 0;
  if (open && fd > 2 &&
      getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 &&
      type == SOCK_STREAM &&
      getsockname(fd, (struct sockaddr *)&address, &address_bytes) == 0 &&
      address.ss_family == AF_UNIX) {
    simple.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (simple.fd >= 0) return GLOO_OK;
    return gli_fail(error, gli_exhaustion_status(errno), -1,
                    "cannot duplicate the descriptor of the launcher: %s",
                    gli_exhaustion_text(errno));
  }
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "the environment variable PMI_FD names descriptor %d for the "
                  "launcher, but it is %s: the parent process or MPI_Finalize "
                  "may have closed it; " OTHER_WAYS,
                  fd, open ? "something else" : "not open");
}

/* Returns true if the program has called MPI_Init. Then MPI alone begins and
 * ends the session: Slurm does not answer to a second init. MPI in a module
 * that was loaded with local symbols, as Python does, is not detected; the
 * other launchers answer then. */
static bool simple_has_mpi(void) {
  uv_lib_t program;
  int (*initialized)(int *);
  void *symbol;
  int yes = 0;
  if (uv_dlopen(NULL, &program) == 0 &&
      uv_dlsym(&program, "MPI_Initialized", &symbol) == 0 && symbol != NULL) {
    memcpy(&initialized, &symbol, sizeof symbol);
    if (initialized(&yes) != 0) yes = 0;
  }
  uv_dlclose(&program);
  return yes != 0;
}

static gloo_status simple_init(uint64_t deadline_ns, gloo_error *error) {
  char line[LINE_BYTES] = "cmd=init pmi_version=1 pmi_subversion=1\n";
  uint64_t number;
  simple.guest = simple_has_mpi();
  if (simple.guest) return GLOO_OK;
  gloo_status status =
      simple_ask("init", "response_to_init", line, deadline_ns, error);
  if (status != GLOO_OK) return status;
  if (!gli_pmi_line_number(line, "pmi_version", 1, &number) || number != 1)
    return simple_nonsense("init", line, error);
  return GLOO_OK;
}

static gloo_status simple_greet(uint64_t deadline_ns, gli_pmi_job *job,
                                gloo_error *error) {
  char line[LINE_BYTES];
  uint64_t number;
  gloo_status status = simple_init(deadline_ns, error);
  if (status != GLOO_OK) return status;
  snprintf(line, sizeof line, "cmd=get_maxes\n");
  status = simple_ask("get_maxes", "maxes", line, deadline_ns, error);
  if (status != GLOO_OK) return status;
  if (!gli_pmi_line_number(line, "vallen_max", INT_MAX, &number) ||
      number < VALUE_MIN)
    return simple_nonsense("get_maxes", line, error);
  simple.value_max = (size_t)(number < VALUE_MAX ? number : VALUE_MAX);
  snprintf(line, sizeof line, "cmd=get_my_kvsname\n");
  status = simple_ask("get_my_kvsname", "my_kvsname", line, deadline_ns, error);
  if (status != GLOO_OK) return status;
  if (!gli_pmi_line_word(line, "kvsname", job->name, sizeof job->name))
    return simple_nonsense("get_my_kvsname", line, error);
  return GLOO_OK;
}

static gloo_status simple_join(uint64_t deadline_ns, gli_pmi_job *job,
                               gloo_error *error) {
  uint64_t fd, size, rank;
  gli_pmi_job read = {0};
  if (simple.broken.status != GLOO_OK) goto broken;
  gloo_status status = simple_read_number(
      "PMI_FD", "the descriptor of the launcher", 0, INT_MAX, &fd, error);
  if (status == GLOO_OK)
    status = simple_read_number("PMI_SIZE", "the number of ranks", 1,
                                GLI_RANKS_MAX, &size, error);
  if (status == GLOO_OK)
    status = simple_read_number("PMI_RANK", "the rank, below PMI_SIZE", 0,
                                size - 1, &rank, error);
  if (status == GLOO_OK) status = simple_take((int)fd, error);
  if (status != GLOO_OK) return status;
  status = simple_greet(deadline_ns, &read, &simple.broken);
  if (status != GLOO_OK) goto broken;
  read.rank = (uint32_t)rank;
  read.size = (uint32_t)size;
  *job = read;
  return GLOO_OK;

broken:
  return gli_fail(error, simple.broken.status, -1, "%s", simple.broken.message);
}

/* ---- telling ------------------------------------------------------------- */

static gloo_status simple_put(const gli_pmi_job *job, uint64_t round,
                              const char *text, uint64_t deadline_ns,
                              gloo_error *error) {
  char line[LINE_BYTES], value[VALUE_MAX];
  size_t at = 0;
  for (unsigned piece = 0;; piece++) {
    gli_pmi_escape(text, &at, value, simple.value_max - 1);
    if (piece == PIECES_MAX)
      return gli_fail(error, GLOO_ERR_INVALID, -1,
                      "a text of %zu bytes is too long for the launcher",
                      strlen(text));
    snprintf(line, sizeof line,
             "cmd=put kvsname=%s key=gloo_c-%" PRIu64 "-%u value=%c%s\n",
             job->name, round, piece, text[at] != '\0' ? '-' : '.', value);
    gloo_status status =
        simple_ask("put", "put_result", line, deadline_ns, error);
    if (status != GLOO_OK || text[at] == '\0') return status;
  }
}

static gloo_status simple_get(const gli_pmi_job *job, uint64_t round, char *out,
                              size_t room, uint64_t deadline_ns,
                              gloo_error *error) {
  char line[LINE_BYTES], value[VALUE_MAX + 1], text[GLI_PMI_TEXT_BYTES];
  size_t used = 0;
  if (room > sizeof text) room = sizeof text;
  for (unsigned piece = 0; piece < PIECES_MAX; piece++) {
    snprintf(line, sizeof line,
             "cmd=get kvsname=%s key=gloo_c-%" PRIu64 "-%u\n", job->name, round,
             piece);
    gloo_status status =
        simple_ask("get", "get_result", line, deadline_ns, error);
    if (status != GLOO_OK) return status;
    if (!gli_pmi_line_word(line, "value", value, sizeof value) ||
        (value[0] != '-' && value[0] != '.') ||
        !gli_pmi_unescape(value + 1, text, &used, room))
      return simple_nonsense("get", line, error);
    if (value[0] != '.') continue;
    memcpy(out, text, used + 1);
    return GLOO_OK;
  }
  return simple_nonsense("get", line, error);
}

static gloo_status simple_barrier(const gli_pmi_job *job, uint64_t deadline_ns,
                                  gloo_error *error) {
  char line[LINE_BYTES];
  snprintf(line, sizeof line, "cmd=barrier_in\n");
  gloo_status status =
      simple_ask("barrier_in", "barrier_out", line, deadline_ns, error);
  if (status != GLOO_ERR_TIMEOUT) return status;
  char late[GLI_PMI_NAME_MAX + 200];
  gli_pmi_late(job, late, sizeof late);
  return gli_fail(error, status, -1, "%s", late);
}

static gloo_status simple_tell(const gli_pmi_job *job, uint64_t round,
                               const char *text, char *out, size_t room,
                               uint64_t deadline_ns, gloo_error *error) {
  gloo_status status = simple.broken.status;
  if (status != GLOO_OK) goto broken;
  gloo_error cause;
  if (job->rank == 0)
    status = simple_put(job, round, text, deadline_ns, &cause);
  if (status == GLOO_OK) status = simple_barrier(job, deadline_ns, &cause);
  if (status == GLOO_OK && job->rank != 0)
    status = simple_get(job, round, out, room, deadline_ns, &cause);
  if (status == GLOO_OK) {
    if (job->rank == 0) memcpy(out, text, strlen(text) + 1);
    return GLOO_OK;
  }
  simple.broken = cause;

broken:
  return gli_fail(error, simple.broken.status, -1, "%s", simple.broken.message);
}

/* Sends the farewell. If the connection is closed, MPI has sent it. */
static void simple_leave(uint64_t deadline_ns) {
  char line[LINE_BYTES] = "cmd=finalize\n";
  gloo_error ignored;
  if (simple.fd < 0 || simple.guest) return;
  (void)simple_exchange("finalize", line, deadline_ns, &ignored);
}

const gli_pmi_ops gli_pmi_simple_ops = {simple_join, simple_tell, simple_leave};
