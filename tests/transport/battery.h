/* The transport battery: contract tests that every transport must pass.
 *
 * The battery stands in for the engine. A `bat_world` holds end points and
 * pairs; upcalls are recorded and checked against the contract as they come:
 * none for a closed, stopped or failed pair, one `sent` per request that was in
 * progress, one `received` per header. Payloads and requests are poisoned and
 * freed the moment the contract lets go of them, so that a transport that still
 * reads them delivers garbage (or is caught by the address sanitizer). */
#ifndef TESTS_TRANSPORT_BATTERY_H
#define TESTS_TRANSPORT_BATTERY_H

/* cmocka.h needs the first four. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <stdatomic.h>
#include <string.h>
#include <uv.h>

#include "transport/transport.h"

/* ---- what is tested ------------------------------------------------------ */

typedef struct bat_variant bat_variant;
struct bat_variant {
  const char *name;
  const gli_transport_ops *ops;
  const char *host;
  int streams;
  bool checksum;
  bool alloc;      /* payloads and sinks are memory of gloo_alloc */
  bool registered; /* or of malloc and gloo_memory_register */
  /* For simulated transports, which live in one thread; NULL elsewhere. */
  void *(*create)(const bat_variant *variant);
  const char *(*host_of)(void *simulation, int end);
  void (*idle)(void *simulation);
  void (*destroy)(void *simulation);
};

extern const bat_variant bat_variants[];
extern const size_t bat_variant_count;

/* ---- the stand-in for the engine ----------------------------------------- */

enum { BAT_ENDS = 3 };

typedef struct bat_world bat_world;
typedef struct bat_pair bat_pair;

/* A message that has arrived, or is arriving. */
typedef struct bat_message {
  gli_header header;
  uint8_t *data; /* where the default sink stored it */
  bool received;
} bat_message;

typedef struct bat_post {
  gli_send_request request; /* first */
  struct bat_post *prev, *next_post;
  bool posted;
} bat_post;

/* Fills in the sink for a message, instead of the default (a separate buffer at
 * an odd address). */
typedef gloo_status (*bat_sink_fn)(bat_pair *pair, const gli_header *header,
                                   gli_sink *sink);

struct bat_pair {
  bat_world *world;
  bat_pair *next;
  int end;
  gli_pair_config config;
  gli_pair *pair;
  bool expected; /* accept opens it */
  bool closed;

  bat_message *in;
  size_t n_in, n_received, in_capacity;
  bat_post posts;  /* ring: taken, not done */
  bat_post again;  /* ring: not yet taken */
  size_t n_posted; /* messages given to bat_send */
  size_t n_done;   /* messages that were DONE or sent */

  int failed;
  bool stopped;
  gloo_error cause;
  bat_sink_fn sink;
  void (*on_received)(bat_pair *pair, const gli_header *header);
  void *user;
};

typedef struct bat_end {
  gli_transport *t; /* NULL: closed */
  uint32_t owed;    /* by the pairs of this end */
  gli_address address;
  uv_mutex_t lock; /* the engine's lock, in tests with threads */
  bat_world *world;
  int accepts; /* upcalls so far */
} bat_end;

struct bat_world {
  const bat_variant *variant;
  void *simulation;
  bat_end ends[BAT_ENDS];
  bat_pair *pairs;
  uint64_t next_key;
  unsigned tls; /* gli_tls_kind, from the environment */
  int fds;
  uv_mutex_t lock; /* protects `pairs`, `next_key` */
  const char *_Atomic complaint;
};

/* cmocka fixtures: *state is the variant before setup, the world after. */
int bat_setup(void **state);
int bat_teardown(void **state);

/* Records the first broken promise. Any thread may call it; the next BAT_DRIVE
 * fails. */
void bat_complain(bat_world *w, const char *text);
void bat_check(bat_world *w);

/* ---- ends and pairs ------------------------------------------------------ */

/* Creates both sides of a connection between two ends, with fresh keys. Neither
 * is open yet; each opens when the other asks. The rank of end i is i. */
void bat_link(bat_world *w, int a, int b, bat_pair **pa, bat_pair **pb);
void bat_open(bat_pair *pair);
void bat_connect(bat_world *w, int a, int b, bat_pair **pa, bat_pair **pb);
void bat_close_end(bat_world *w, int end);

/* Closes a pair and releases at once everything that it was using. `type` is
 * GLI_MESSAGE_BYE, GLI_MESSAGE_ABORT, or 0 for no last message. */
void bat_close(bat_pair *pair, int type, const void *payload, size_t bytes);

/* Sends a copy of `payload`. The header's `operation` numbers the messages of a
 * pair from 0. */
void bat_send(bat_pair *pair, uint32_t slot, const void *payload, size_t bytes);
void bat_send_header(bat_pair *pair, const gli_header *header,
                     const void *payload);

/* Runs one round of polling, on all ends or on one. Returns the number of
 * events. */
int bat_poll(bat_world *w);
int bat_poll_end(bat_world *w, int end);

/* Polls until the condition holds, and fails the test if it never does. */
typedef struct bat_patience {
  uint64_t since_ns;
  unsigned idle;
} bat_patience;
void bat_drive_once(bat_world *w, bat_patience *patience, const char *what);
#define BAT_DRIVE(w, condition)                                       \
  do {                                                                \
    bat_patience patience_ = {0, 0};                                  \
    while (!(condition)) bat_drive_once((w), &patience_, #condition); \
    bat_check(w);                                                     \
  } while (0)

/* Polls on for a while: nothing more may happen. */
void bat_settle(bat_world *w);

/* ---- contents ------------------------------------------------------------ */

uint64_t bat_random(uint64_t *state);
void bat_fill(void *data, size_t bytes, uint64_t seed);
bool bat_matches(const void *data, size_t bytes, uint64_t seed);

/* Sends bat_fill(seed) and checks it at the other end (message `i`). */
void bat_send_filled(bat_pair *pair, uint32_t slot, size_t bytes,
                     uint64_t seed);
void bat_assert_message(const bat_pair *pair, size_t i, size_t bytes,
                        uint64_t seed);

/* Allocates a payload in the kind of memory that the variant uses. */
void *bat_memory(const bat_world *w, size_t bytes);
void bat_memory_free(void *memory);

/* ---- the tests ----------------------------------------------------------- */

int bat_run_connect_tests(void *variant);
int bat_run_message_tests(void *variant);
int bat_run_close_tests(void *variant);
int bat_run_thread_tests(void *variant);
int bat_run_rkey_tests(void *variant);
int bat_run_take_tests(void *variant);
int bat_run_owed_tests(void *variant);

#define BAT_TEST(f) \
  { #f, f, bat_setup, bat_teardown, NULL }

/* Runs a group with the variant as each test's initial state. */
int bat_run(const char *group, struct CMUnitTest *tests, size_t n,
            void *variant);

#endif
