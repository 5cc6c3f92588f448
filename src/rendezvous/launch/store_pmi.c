/* The store of a job whose launcher distributes its address: rank 0 serves an
 * ordinary TCP store. */
#include "rendezvous/launch/store_pmi.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "core/exhaustion.h"
#include "core/random.h"
#include "core/text.h"
#include "net/published.h"
#include "net/tcp_address.h"
#include "net/tcp_race.h"
#include "rendezvous/launch/pmi_line.h"
#include "rendezvous/store/store.h"
#include "security/keys.h"
#include "security/secret.h"

/* Time for one attempt to connect. The server exists before its address is
 * published, so an address that does not answer soon is wrong or another
 * host's. */
#define GREETING_NS INT64_C(3000000000)
/* Time for one round over all addresses, before all are tried again. */
#define ROUND_NS INT64_C(10000000000)
#define PAUSE_MS 100u

/* ---- the record ---------------------------------------------------------- */

#define SERVED "served"
#define FAILED "failed"
#define NO_SECRET "-"
#define TOLD_BY "the launcher's"

/* Format: "served JOB SECRET PORT ADDRESS ADDRESS"; SECRET is hexadecimal, or
 * NO_SECRET. */
void gli_pmi_place_write(const gli_pmi_place *place, char *text) {
  char digits[2 * GLI_SECRET_MAX + 1] = NO_SECRET;
  for (size_t i = 0; i < place->secret.n_bytes; i++)
    snprintf(digits + 2 * i, 3, "%02x", (unsigned)place->secret.bytes[i]);
  int used = snprintf(text, GLI_PMI_PLACE_BYTES, SERVED " %s %s %u", place->job,
                      digits, (unsigned)place->port);
  gli_wipe(digits, sizeof digits);
  for (size_t i = 0; i < place->n; i++)
    used += snprintf(text + used, GLI_PMI_PLACE_BYTES - (size_t)used, " %s",
                     place->addresses[i]);
}

/* Reads the next word, of at most room - 1 bytes. */
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

static bool place_parse_secret(const char *digits, gli_secret *secret) {
  if (strcmp(digits, NO_SECRET) == 0) return true;
  return strlen(digits) == 2 * GLI_PMI_SECRET_BYTES &&
         gli_secret_decode(digits, strlen(digits), "the launcher's secret",
                           secret, NULL) == GLOO_OK;
}

static bool place_parse(const char *text, gli_pmi_place *p) {
  char word[16], digits[2 * GLI_PMI_SECRET_BYTES + 1];
  uint64_t port;
  struct sockaddr_storage address;
  bool good = place_word(&text, word, sizeof word) &&
              strcmp(word, SERVED) == 0 &&
              place_word(&text, p->job, sizeof p->job) &&
              place_word(&text, digits, sizeof digits) &&
              place_parse_secret(digits, &p->secret);
  gli_wipe(digits, sizeof digits);
  if (!good || !place_word(&text, word, sizeof word) ||
      !gli_pmi_number(word, 65535, &port) || port == 0)
    return false;
  p->port = (uint16_t)port;
  while (*text != '\0') {
    if (p->n == GLI_PMI_ADDRESSES_MAX ||
        !place_word(&text, p->addresses[p->n], sizeof p->addresses[p->n]) ||
        !place_parse_address(p->addresses[p->n], p->port, &address))
      return false;
    p->n++;
  }
  return p->n > 0;
}

bool gli_pmi_place_read(const char *text, gli_pmi_place *place) {
  gli_pmi_place read = {.secret = {.source = TOLD_BY}};
  bool good = place_parse(text, &read);
  if (good) *place = read;
  gli_secret_release(&read.secret);
  return good;
}

/* ---- the secret ---------------------------------------------------------- */

/* Opens the store with this rank's secret: that of the options, else of the
 * environment, else the secret that rank 0 distributed, which the context
 * inherits. A rank with its own secret ignores rank 0's, so that the mismatch
 * shows in the store's handshake. */
static gloo_status pmi_place_open(const gli_pmi_place *place,
                                  const gloo_store_tcp_options *how,
                                  gloo_store **store, gloo_error *error) {
  gli_security security;
  gloo_store_tcp_options o = *how;
  gloo_status status = gli_security_read(&security, error);
  if (status != GLOO_OK) return status;
  o.job = place->job;
  bool told = place->secret.n_bytes > 0 && security != GLI_SECURITY_OFF;
  if (told) {
    o.secret = place->secret.bytes;
    o.secret_bytes = place->secret.n_bytes;
  }
  status = gloo_store_tcp_create(&o, store, error);
  if (status == GLOO_OK && told) (*store)->told = place->secret;
  return status;
}

/* Draws a secret, unless the user has set one. */
static gloo_status place_draw_secret(gli_pmi_place *place,
                                     const gloo_store_tcp_options *how,
                                     gloo_error *error) {
  gli_security security;
  gli_secret own;
  gloo_status status = gli_security_read(&security, error);
  if (status != GLOO_OK || security == GLI_SECURITY_OFF) return status;
  status = gli_secret_read(how->secret, how->secret_bytes, &own, error);
  if (status != GLOO_OK) return status;
  bool has_one = own.n_bytes > 0;
  gli_secret_release(&own);
  if (has_one || gli_openssl_version() == NULL) return GLOO_OK;
  place->secret.source = TOLD_BY;
  place->secret.n_bytes = GLI_PMI_SECRET_BYTES;
  return gli_random_draw(place->secret.bytes, GLI_PMI_SECRET_BYTES, error);
}

/* ---- rank 0 -------------------------------------------------------------- */

static gloo_status place_name(gli_pmi_place *place, gloo_error *error) {
  uint8_t bytes[(GLI_PMI_JOB_BYTES - 1) / 2];
  const char *what;
  int code = gli_random(bytes, sizeof bytes, &what);
  if (code != 0)
    return gli_fail(error, gli_exhaustion_status(code), -1,
                    "cannot draw a random job name: %s: %s", what,
                    gli_exhaustion_text(code));
  for (size_t i = 0; i < sizeof bytes; i++)
    snprintf(place->job + 2 * i, 3, "%02x", (unsigned)bytes[i]);
  return GLOO_OK;
}

/* Lists the addresses to publish: those that ranks publish, and loopback for
 * ranks on this host. Addresses with an interface name mean nothing on another
 * host. */
static gloo_status place_addresses(gli_pmi_place *place, bool here,
                                   gloo_error *error) {
  gli_interfaces all;
  gli_published published = {.told = {.n = 0}};
  gli_publishing how = {.choice = NULL};
  gloo_status status = here ? GLOO_OK : gli_interfaces_read(&all, error);
  if (status == GLOO_OK && !here) {
    status = gli_published_find(&how, &all, &published, error);
    gli_interfaces_free(&all);
  }
  if (status != GLOO_OK) return status;
  place->n = 0;
  for (uint32_t i = 0; i < published.told.n; i++)
    if (!gli_endpoint_is_link_local(&published.told.at[i]) &&
        place->n + 1 < GLI_PMI_ADDRESSES_MAX)
      gli_endpoint_text(&published.told.at[i], place->addresses[place->n++]);
  strcpy(place->addresses[place->n++], "127.0.0.1");
  return GLOO_OK;
}

/* Serves the store at all IPv6 and IPv4 addresses, or IPv4 only if the system
 * has no IPv6. */
gloo_status gli_pmi_place_serve(gli_pmi_place *place, bool here,
                                const gloo_store_tcp_options *how,
                                gloo_store **store, gloo_error *error) {
  gloo_store_tcp_options o = *how;
  gloo_status status = place_name(place, error);
  if (status != GLOO_OK) return status;
  o.host = here ? "127.0.0.1" : "::";
  o.serve = 1;
  status = pmi_place_open(place, &o, store, error);
  if (status == GLOO_ERR_ADDRESS && !here) {
    o.host = "0.0.0.0";
    status = pmi_place_open(place, &o, store, error);
  }
  if (status != GLOO_OK) return status;
  place->port = gloo_store_tcp_port(*store);
  status = place_addresses(place, here, error);
  if (status != GLOO_OK) gloo_store_destroy(*store);
  return status;
}

void gli_pmi_place_publish(const gli_pmi_place *place, gloo_status status,
                           const gloo_error *cause, char *text) {
  if (status == GLOO_OK) {
    gli_pmi_place_write(place, text);
  } else {
    snprintf(text, GLI_PMI_PLACE_BYTES, FAILED " %s", cause->message);
  }
}

/* Serves the store and publishes its address. The other ranks wait for that;
 * after a failure they get the message instead. */
static gloo_status store_pmi_serve(gli_pmi_kind kind,
                                   const gloo_store_tcp_options *how,
                                   gloo_store **store, gloo_error *error) {
  char text[GLI_PMI_PLACE_BYTES], heard[GLI_PMI_PLACE_BYTES];
  gli_pmi_place place = {.n = 0};
  gloo_error cause;
  gloo_store *served = NULL;
  gloo_status status = place_draw_secret(&place, how, &cause);
  if (status == GLOO_OK)
    status = gli_pmi_place_serve(&place, false, how, &served, &cause);
  gli_pmi_place_publish(&place, status, &cause, text);
  gloo_error told;
  gloo_status telling =
      gli_pmi_tell(kind, text, heard, sizeof heard, how->timeout_ns, &told);
  gli_wipe(text, sizeof text);
  gli_wipe(heard, sizeof heard);
  gli_secret_release(&place.secret);
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

/* ---- other ranks --------------------------------------------------------- */

/* Tries the addresses until one answers or all have failed. At one of the
 * addresses, on this rank's host, another job's server may have the port. */
gloo_status gli_pmi_place_try(const gli_pmi_place *place,
                              const gloo_store_tcp_options *how,
                              uint64_t deadline_ns, gloo_store **store,
                              gloo_error *error) {
  struct sockaddr_storage addresses[GLI_PMI_ADDRESSES_MAX];
  bool failed[GLI_PMI_ADDRESSES_MAX] = {false};
  uint64_t until = gli_deadline_after(ROUND_NS);
  if (deadline_ns < until) until = deadline_ns;
  for (size_t i = 0; i < place->n; i++)
    (void)place_parse_address(place->addresses[i], place->port, &addresses[i]);
  gloo_error cause = {.status = GLOO_OK};
  gloo_store_tcp_options o = *how;
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
    gloo_status status = pmi_place_open(place, &o, store, &cause);
    if (status == GLOO_OK) return status;
    failed[i] = true;
  }
}

static gloo_status store_pmi_reach(const gli_pmi_place *place,
                                   const gloo_store_tcp_options *how,
                                   uint64_t deadline_ns, gloo_store **store,
                                   gloo_error *error) {
  char addresses[GLI_PMI_ADDRESSES_MAX * (GLI_ENDPOINT_TEXT_BYTES + 1)] = "";
  gloo_error cause;
  for (;;) {
    gloo_status status =
        gli_pmi_place_try(place, how, deadline_ns, store, &cause);
    if (status == GLOO_OK) return status;
    if (gli_deadline_left(deadline_ns) == 0) break;
    uv_sleep(PAUSE_MS);
  }
  for (size_t i = 0, used = 0; i < place->n; i++)
    used += (size_t)snprintf(addresses + used, sizeof addresses - used, " %s",
                             place->addresses[i]);
  return gli_fail(
      error, GLOO_ERR_TIMEOUT, 0,
      "cannot connect to rank 0 on port %u at any of its addresses:%s (tried "
      "for %s): %s; allow that port in the firewalls of the hosts",
      (unsigned)place->port, addresses, gli_duration(how->timeout_ns).text,
      cause.message);
}

gloo_status gli_pmi_place_find(const char *text, gli_pmi_place *place,
                               gloo_error *error) {
  if (strncmp(text, FAILED " ", sizeof FAILED) == 0)
    return gli_fail(error, GLOO_ERR_PEER, 0,
                    "rank 0 cannot serve the store: %s", text + sizeof FAILED);
  if (gli_pmi_place_read(text, place)) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_PROTOCOL, 0,
                  "the value that rank 0 published through the launcher is "
                  "invalid; do all ranks run the same version?");
}

static gloo_status store_pmi_find(gli_pmi_kind kind,
                                  const gloo_store_tcp_options *how,
                                  gloo_store **store, gloo_error *error) {
  char text[GLI_PMI_PLACE_BYTES];
  gli_pmi_place place;
  uint64_t deadline = gli_deadline_after(how->timeout_ns);
  gloo_status status =
      gli_pmi_tell(kind, NULL, text, sizeof text, how->timeout_ns, error);
  if (status == GLOO_OK) status = gli_pmi_place_find(text, &place, error);
  gli_wipe(text, sizeof text);
  if (status != GLOO_OK) return status;
  status = store_pmi_reach(&place, how, deadline, store, error);
  gli_secret_release(&place.secret);
  return status;
}

gloo_status gli_store_pmi_open(gli_pmi_kind kind, uint32_t rank,
                               const gloo_store_tcp_options *how,
                               gloo_store **store, gloo_error *error) {
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  o.secret = how->secret;
  o.secret_bytes = how->secret_bytes;
  o.tls = how->tls;
  o.timeout_ns = how->timeout_ns;
  return rank == 0 ? store_pmi_serve(kind, &o, store, error)
                   : store_pmi_find(kind, &o, store, error);
}
