/* The store of a job whose launcher tells the ranks where it is: rank 0 serves
 * a TCP store, and from then on it is one like any other. */
#include "rendezvous/store_pmi.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "core/lack.h"
#include "core/published.h"
#include "core/random.h"
#include "rendezvous/pmi_line.h"
#include "rendezvous/store.h"
#include "rendezvous/tcp_address.h"
#include "rendezvous/tcp_race.h"
#include "rendezvous/text.h"
#include "security/secret.h"
#include "security/trust.h"

/* The server is there before anybody hears of it: whoever does not get an
 * answer soon has the wrong address, or another host's. */
#define GREETING_NS INT64_C(3000000000)
/* In which all addresses are tried, before all are tried again. */
#define ROUND_NS INT64_C(10000000000)
#define PAUSE_MS 100u

/* ---- what is told -------------------------------------------------------- */

#define SERVED "served"
#define FAILED "failed"

/* "served JOB PORT ADDRESS ADDRESS" */
void gli_pmi_place_write(const gli_pmi_place *place, char *text) {
  int used = snprintf(text, GLI_PMI_PLACE_BYTES, SERVED " %s %u", place->job,
                      (unsigned)place->port);
  for (size_t i = 0; i < place->n; i++)
    used += snprintf(text + used, GLI_PMI_PLACE_BYTES - (size_t)used, " %s",
                     place->addresses[i]);
}

/* The next word of at most room - 1 bytes. */
static bool place_word(const char **text, char *out, size_t room) {
  size_t bytes = strcspn(*text, " ");
  if (bytes == 0 || bytes >= room) return false;
  memcpy(out, *text, bytes);
  out[bytes] = '\0';
  *text += bytes;
  if (**text == ' ') ++*text;
  return true;
}

static bool place_parse_address(const char *text, uint16_t port,
                                struct sockaddr_storage *out) {
  memset(out, 0, sizeof *out);
  return uv_ip4_addr(text, port, (struct sockaddr_in *)out) == 0 ||
         uv_ip6_addr(text, port, (struct sockaddr_in6 *)out) == 0;
}

bool gli_pmi_place_read(const char *text, gli_pmi_place *place) {
  gli_pmi_place p = {.n = 0};
  char word[16];
  uint64_t port;
  struct sockaddr_storage address;
  if (!place_word(&text, word, sizeof word) || strcmp(word, SERVED) != 0 ||
      !place_word(&text, p.job, sizeof p.job) ||
      !place_word(&text, word, sizeof word) ||
      !gli_pmi_number(word, 65535, &port) || port == 0)
    return false;
  p.port = (uint16_t)port;
  while (*text != '\0') {
    if (p.n == GLI_PMI_ADDRESSES_MAX ||
        !place_word(&text, p.addresses[p.n], sizeof p.addresses[p.n]) ||
        !place_parse_address(p.addresses[p.n], p.port, &address))
      return false;
    p.n++;
  }
  if (p.n == 0) return false;
  *place = p;
  return true;
}

/* The name of the job was drawn for it, and nobody but its ranks has been told:
 * where there is no secret, it is one. */
static gloo_status place_secret(const gli_pmi_place *place,
                                gloo_store_tcp_options *o, gloo_error *error) {
  gli_trust trust;
  size_t bytes = strlen(place->job);
  gloo_status status = gli_trust_read(NULL, 0, &trust, error);
  if (status != GLOO_OK) return status;
  o->job = place->job;
  if (!trust.asks && !trust.silent && gli_openssl_version() != NULL &&
      bytes >= GLI_SECRET_MIN && bytes <= GLI_SECRET_MAX) {
    o->secret = place->job;
    o->secret_bytes = bytes;
  }
  gli_trust_release(&trust);
  return GLOO_OK;
}

/* ---- rank 0 -------------------------------------------------------------- */

static gloo_status place_name(gli_pmi_place *place, gloo_error *error) {
  uint8_t bytes[(GLI_PMI_JOB_BYTES - 1) / 2];
  const char *what;
  int code = gli_random(bytes, sizeof bytes, &what);
  if (code != 0)
    return gli_fail(error, gli_lack_status(code), -1,
                    "no random name for the job: %s: %s", what,
                    gli_lack_text(code));
  for (size_t i = 0; i < sizeof bytes; i++)
    snprintf(place->job + 2 * i, 3, "%02x", (unsigned)bytes[i]);
  return GLOO_OK;
}

/* What the others are told: the addresses that ranks publish, and loopback, for
 * those on this host. One that takes the name of an interface means nothing on
 * another host. */
static gloo_status place_addresses(gli_pmi_place *place, gloo_error *error) {
  gli_interfaces all;
  gli_published published;
  gli_publishing how = {.choice = NULL};
  gloo_status status = gli_interfaces_read(&all, error);
  if (status != GLOO_OK) return status;
  status = gli_published_find(&how, &all, &published, error);
  gli_interfaces_free(&all);
  if (status != GLOO_OK) return status;
  place->n = 0;
  for (uint32_t i = 0; i < published.told.n; i++)
    if (!gli_endpoint_is_link_local(&published.told.at[i]) &&
        place->n + 1 < GLI_PMI_ADDRESSES_MAX)
      gli_endpoint_text(&published.told.at[i], place->addresses[place->n++]);
  strcpy(place->addresses[place->n++], "127.0.0.1");
  return GLOO_OK;
}

/* At all addresses of both kinds, or of IPv4 where the system has no IPv6. */
static gloo_status place_serve(gli_pmi_place *place, gloo_store **store,
                               gloo_error *error) {
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  gloo_status status = place_name(place, error);
  if (status == GLOO_OK) status = place_secret(place, &o, error);
  if (status != GLOO_OK) return status;
  o.host = "::";
  o.serve = 1;
  status = gloo_store_tcp_create(&o, store, error);
  if (status == GLOO_ERR_ADDRESS) {
    o.host = "0.0.0.0";
    status = gloo_store_tcp_create(&o, store, error);
  }
  if (status != GLOO_OK) return status;
  place->port = gloo_store_tcp_port(*store);
  status = place_addresses(place, error);
  if (status != GLOO_OK) gloo_store_destroy(*store);
  return status;
}

/* All wait for the word of rank 0: they hear it when there is no store, too. */
static gloo_status store_pmi_serve(gli_pmi_kind kind, int64_t timeout_ns,
                                   gloo_store **store, gloo_error *error) {
  char text[GLI_PMI_PLACE_BYTES], heard[GLI_PMI_PLACE_BYTES];
  gli_pmi_place place;
  gloo_error cause;
  gloo_store *served = NULL;
  gloo_status status = place_serve(&place, &served, &cause);
  if (status == GLOO_OK) {
    gli_pmi_place_write(&place, text);
  } else {
    snprintf(text, sizeof text, FAILED " %s", cause.message);
  }
  gloo_error told;
  gloo_status telling =
      gli_pmi_tell(kind, text, heard, sizeof heard, timeout_ns, &told);
  if (status == GLOO_OK && telling != GLOO_OK) {
    status = telling;
    cause = told;
  }
  if (status == GLOO_OK) {
    *store = served;
    return GLOO_OK;
  }
  gloo_store_destroy(served);
  return gli_fail(error, status, -1, "%s", cause.message);
}

/* ---- the others ---------------------------------------------------------- */

/* Until one answers, or all have failed: another job's server may have the port
 * at one of the addresses, on the host of this rank. */
static gloo_status place_try(const gli_pmi_place *place,
                             gloo_store_tcp_options o, uint64_t deadline_ns,
                             gloo_store **store, gloo_error *error) {
  struct sockaddr_storage addresses[GLI_PMI_ADDRESSES_MAX];
  bool failed[GLI_PMI_ADDRESSES_MAX] = {false};
  uint64_t until = gli_deadline_after(ROUND_NS);
  if (deadline_ns < until) until = deadline_ns;
  for (size_t i = 0; i < place->n; i++)
    (void)place_parse_address(place->addresses[i], place->port, &addresses[i]);
  gloo_error cause = {.status = GLOO_OK};
  o.port = place->port;
  o.timeout_ns = GREETING_NS;
  for (;;) {
    int code;
    int i = gli_tcp_race(addresses, place->n, until, failed, &code);
    if (i < 0 && cause.status == GLOO_OK)
      return gli_fail(error, GLOO_ERR_TIMEOUT, -1, "%s",
                      uv_strerror(uv_translate_sys_error(code)));
    if (i < 0) return gli_fail(error, cause.status, -1, "%s", cause.message);
    o.host = place->addresses[i];
    gloo_status status = gloo_store_tcp_create(&o, store, &cause);
    if (status == GLOO_OK) return status;
    failed[i] = true;
  }
}

static gloo_status store_pmi_reach(const gli_pmi_place *place,
                                   uint64_t deadline_ns, int64_t timeout_ns,
                                   gloo_store **store, gloo_error *error) {
  char text[GLI_PMI_PLACE_BYTES];
  gloo_error cause;
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  gloo_status status = place_secret(place, &o, error);
  if (status != GLOO_OK) return status;
  for (;;) {
    status = place_try(place, o, deadline_ns, store, &cause);
    if (status == GLOO_OK) return status;
    if (gli_deadline_left(deadline_ns) == 0) break;
    uv_sleep(PAUSE_MS);
  }
  gli_pmi_place_write(place, text);
  const char *addresses = strchr(strchr(strchr(text, ' ') + 1, ' ') + 1, ' ');
  return gli_fail(error, GLOO_ERR_TIMEOUT, 0,
                  "rank 0 serves a store at port %u of%s, and this host "
                  "reaches it at none of these addresses (tried for %s): %s; "
                  "let the hosts' firewalls pass it",
                  (unsigned)place->port, addresses,
                  gli_duration(timeout_ns).text, cause.message);
}

static gloo_status store_pmi_find(gli_pmi_kind kind, int64_t timeout_ns,
                                  gloo_store **store, gloo_error *error) {
  char text[GLI_PMI_PLACE_BYTES];
  gli_pmi_place place;
  uint64_t deadline = gli_deadline_after(timeout_ns);
  gloo_status status =
      gli_pmi_tell(kind, NULL, text, sizeof text, timeout_ns, error);
  if (status != GLOO_OK) return status;
  if (strncmp(text, FAILED " ", sizeof FAILED) == 0)
    return gli_fail(error, GLOO_ERR_PEER, 0,
                    "rank 0 cannot serve the store in which the ranks meet: %s",
                    text + sizeof FAILED);
  if (!gli_pmi_place_read(text, &place))
    return gli_fail(error, GLOO_ERR_PROTOCOL, 0,
                    "what rank 0 told through the launcher makes no sense; do "
                    "all ranks run the same version?");
  return store_pmi_reach(&place, deadline, timeout_ns, store, error);
}

gloo_status gli_store_pmi_open(gli_pmi_kind kind, uint32_t rank,
                               int64_t timeout_ns, gloo_store **store,
                               gloo_error *error) {
  if (timeout_ns == GLOO_TIMEOUT_DEFAULT) timeout_ns = GLI_STORE_TIMEOUT_NS;
  return rank == 0 ? store_pmi_serve(kind, timeout_ns, store, error)
                   : store_pmi_find(kind, timeout_ns, store, error);
}
