/* Meeting the other ranks: address records and the hosts that they describe. */
#include "rendezvous/join/bootstrap.h"

#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/cpu.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "engine/engine.h"
#include "rendezvous/join/cores.h"
#include "rendezvous/join/exchange.h"
#include "rendezvous/join/host.h"
#include "rendezvous/join/outcome.h"
#include "rendezvous/join/tree_exchange.h"
#include "rendezvous/store/store.h"
#include "security/trust.h"

/* ---- what a rank publishes ----------------------------------------------- */

/* The record of a rank has a version, key, system, host (as plans see it),
 * usable cores, transport (16 bytes, zero-padded), tuning, agreement, mask of
 * cores and address, and a tag if the rank has a secret. */
enum {
  RECORD_VERSION = 11,
  RECORD_TRANSPORT_BYTES = 16,
  RECORD_MASK = 4 + 8 + 8 + 8 + 4 + RECORD_TRANSPORT_BYTES + 8 + 4,
  RECORD_HEAD_BYTES = RECORD_MASK + GLI_CPU_MASK_BYTES,
  RECORD_MAX_BYTES = RECORD_HEAD_BYTES + GLI_ADDRESS_MAX + GLI_TAG_BYTES
};

/* Bits of the agreement; the mark is stored above them. */
enum {
  MEASURES = 1,
  SHARED_BUFFERS = 2,
  BIG_ENDIAN_BYTES = 4,
  ASKS_FOR_SECRET = 8,
  TLS_SHIFT = 4,
  TLS_MASK = 3,
  BEATS = 64,
  MARK_SHIFT = 32 - GLI_TRUST_MARK_BITS
};

static uint32_t agreement_word(const gli_agreement *agreement) {
  return (agreement->beats ? BEATS : 0) | (agreement->measures ? MEASURES : 0) |
         (agreement->shared_buffers ? SHARED_BUFFERS : 0) |
         (agreement->big_endian ? BIG_ENDIAN_BYTES : 0) |
         (agreement->asks ? ASKS_FOR_SECRET : 0) |
         (uint32_t)agreement->tls << TLS_SHIFT | agreement->mark << MARK_SHIFT;
}

static gli_agreement read_agreement(uint32_t word) {
  return (gli_agreement){.beats = (word & BEATS) != 0,
                         .measures = (word & MEASURES) != 0,
                         .shared_buffers = (word & SHARED_BUFFERS) != 0,
                         .big_endian = (word & BIG_ENDIAN_BYTES) != 0,
                         .asks = (word & ASKS_FOR_SECRET) != 0,
                         .tls = (gli_tls_kind)(word >> TLS_SHIFT & TLS_MASK),
                         .mark = word >> MARK_SHIFT};
}

/* Describes one rank, with the same values on every rank that reads them. */
typedef struct place {
  uint64_t host;   /* see gli_host_key */
  uint64_t tuning; /* hash of its tuning table; 0 if it has none */
  gli_agreement agreement;
  bool forged; /* true if the tag of its record is wrong */
} place;

/* Computes the tag of a rank's record; zeros without a `mac`. */
static gloo_status record_tag(gli_mac *mac, uint32_t rank,
                              const uint8_t *record, size_t bytes,
                              uint8_t tag[GLI_TAG_BYTES], gloo_error *error) {
  uint8_t number[4];
  memset(tag, 0, GLI_TAG_BYTES);
  if (mac == NULL) return GLOO_OK;
  gli_put_u32(number, rank);
  const gli_part parts[] = {{number, sizeof number}, {record, bytes}};
  return gli_mac_tag(mac, parts, 2, tag, error);
}

static gloo_status bootstrap_write_record(uint8_t record[RECORD_MAX_BYTES],
                                          size_t *bytes,
                                          const gloo_context *context,
                                          uint64_t key, const place *here,
                                          const gli_cores *cores, gli_mac *mac,
                                          gloo_error *error) {
  const gloo_device *device = gli_context_device(context);
  gli_address address;
  gli_device_address(device, &address);
  memset(record, 0, RECORD_HEAD_BYTES);
  gli_put_u32(record, RECORD_VERSION);
  gli_put_u64(record + 4, key);
  gli_put_u64(record + 12, cores->system);
  gli_put_u64(record + 20, here->host);
  gli_put_u32(record + 28, cores->usable);
  const char *name = gli_device_transport(device);
  memcpy(record + 32, name, strlen(name));
  gli_put_u64(record + 32 + RECORD_TRANSPORT_BYTES, here->tuning);
  gli_put_u32(record + 40 + RECORD_TRANSPORT_BYTES,
              agreement_word(&here->agreement));
  memcpy(record + RECORD_MASK, cores->mask, sizeof cores->mask);
  memcpy(record + RECORD_HEAD_BYTES, address.data, address.bytes);
  *bytes = RECORD_HEAD_BYTES + address.bytes;
  if (!here->agreement.asks) return GLOO_OK;
  uint8_t *tag = record + *bytes;
  *bytes += GLI_TAG_BYTES;
  return record_tag(mac, (uint32_t)gloo_context_rank(context), record,
                    *bytes - GLI_TAG_BYTES, tag, error);
}

static gloo_status bootstrap_no_record(uint32_t rank, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_PROTOCOL, (int)rank,
                  "rank %u published an invalid address record; do all ranks "
                  "run the same version of the library?",
                  rank);
}

static gloo_status bootstrap_read_record(gloo_context *context, uint32_t rank,
                                         const gloo_value *record, place *there,
                                         gli_cores *cores, gloo_error *error) {
  const uint8_t *data = record->data;
  if (record->bytes < RECORD_HEAD_BYTES || record->bytes > RECORD_MAX_BYTES ||
      gli_get_u32(data) != RECORD_VERSION) {
    return bootstrap_no_record(rank, error);
  }
  char name[RECORD_TRANSPORT_BYTES + 1] = "";
  memcpy(name, data + 32, RECORD_TRANSPORT_BYTES);
  const char *own = gli_device_transport(gli_context_device(context));
  if (strcmp(name, own) != 0) {
    return gli_fail(error, GLOO_ERR_MISMATCH, (int)rank,
                    "rank %d uses transport \"%s\", rank %u \"%s\": set "
                    "GLOO_TRANSPORT to the same value on all ranks",
                    gloo_context_rank(context), own, rank, name);
  }
  gli_agreement agreement =
      read_agreement(gli_get_u32(data + 40 + RECORD_TRANSPORT_BYTES));
  size_t rest = record->bytes - RECORD_HEAD_BYTES;
  size_t tag_bytes = agreement.asks ? GLI_TAG_BYTES : 0;
  if (rest < tag_bytes || rest - tag_bytes > GLI_ADDRESS_MAX)
    return bootstrap_no_record(rank, error);
  gli_address address = {.bytes = (uint16_t)(rest - tag_bytes)};
  memcpy(address.data, data + RECORD_HEAD_BYTES, address.bytes);
  gli_context_set_peer(context, rank, &address, gli_get_u64(data + 4),
                       agreement.beats);
  *there = (place){.host = gli_get_u64(data + 20),
                   .tuning = gli_get_u64(data + 32 + RECORD_TRANSPORT_BYTES),
                   .agreement = agreement};
  cores->system = gli_get_u64(data + 12);
  cores->usable = gli_get_u32(data + 28);
  memcpy(cores->mask, data + RECORD_MASK, sizeof cores->mask);
  return GLOO_OK;
}

/* ---- meeting ------------------------------------------------------------- */

/* Passes the hosts of all ranks to the context. All ranks read the same address
 * records, so they agree on the hosts even if the records are wrong. `keys` is
 * scratch memory. */
static gloo_status bootstrap_learn_hosts(gloo_context *context,
                                         const place *places,
                                         const gli_cores *cores, uint64_t *keys,
                                         uint32_t size, gloo_error *error) {
  gli_hosts *hosts;
  for (uint32_t i = 0; i < size; i++) keys[i] = places[i].host;
  gloo_status status = gli_hosts_make(keys, size, &hosts, error);
  if (status != GLOO_OK) return status;
  gli_log(GLOO_LOG_INFO, "rank %d of %u: hosts: %u, with %u to %u ranks each",
          gloo_context_rank(context), size, hosts->n, hosts->least,
          hosts->most);
  gli_context_place(context, hosts, gli_cores_subscription(cores, size));
  return GLOO_OK;
}

/* Chooses between spinning and yielding from the cores of this rank. */
static void decide_waiting(gloo_context *context, uint32_t size,
                           const gli_cores *cores) {
  int rank = gloo_context_rank(context);
  gloo_device *device = gli_context_device(context);
  gli_sharing s = gli_cores_shared(cores, size, (uint32_t)rank);
  gli_device_set_oversubscribed(device, s.oversubscribed);
  gli_log(GLOO_LOG_INFO, "rank %d of %u: transport %s; %s on %s: %s", rank,
          size, gli_device_transport(device), gli_count(s.ranks, "rank").text,
          gli_count(s.cores, "core").text,
          s.oversubscribed ? "yield while waiting" : "spin while waiting");
  if (s.oversubscribed && gli_log_enabled(GLOO_LOG_INFO) &&
      gli_cpu_yield_is_ineffective()) {
    gli_log(GLOO_LOG_INFO,
            "rank %d of %u leads its own session, and the kernel schedules by "
            "session (autogroup): ranks that yield may not let each other run. "
            "Start all ranks in one session, or set "
            "kernel.sched_autogroup_enabled to 0",
            rank, size);
  }
}

/* Compares the secrets of two ranks. The pairs prove the secret too, but this
 * check names the same rank on all ranks. */
static gloo_status check_secret(uint32_t rank, gli_agreement its,
                                gli_agreement first, gloo_error *error) {
  if (its.asks != first.asks)
    return gli_fail(error, GLOO_ERR_AUTH, (int)rank,
                    "rank %u has %s secret, unlike rank 0: set GLOO_JOB_SECRET "
                    "to the same value on all ranks (GLOO_SECURITY=off and "
                    "builds without OpenSSL ignore it)",
                    rank, its.asks ? "a" : "no");
  if (its.mark != first.mark)
    return gli_fail(
        error, GLOO_ERR_AUTH, (int)rank,
        "rank %u and rank 0 have different secrets: set GLOO_JOB_SECRET (or "
        "its file or option) to the same value on all ranks",
        rank);
  return GLOO_OK;
}

/* Fails if the tag of a record is wrong. The pairs would detect another secret,
 * but not a forged record. */
static gloo_status check_records(const place *places, uint32_t size,
                                 gloo_error *error) {
  for (uint32_t i = 0; i < size; i++) {
    if (!places[i].forged) continue;
    return gli_fail(
        error, GLOO_ERR_AUTH, (int)i,
        "the record of rank %u in the store fails authentication: set "
        "GLOO_JOB_ID and GLOO_EPOCH to the same values on all ranks, and check "
        "that no other job or user writes to this store",
        i);
  }
  return GLOO_OK;
}

static gloo_status check_tls(uint32_t rank, gli_agreement its,
                             gli_agreement first, gloo_error *error) {
  if (its.tls == first.tls) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_AUTH, (int)rank,
                  "rank %u uses %s, and rank 0 %s: GLOO_TLS and GLOO_TLS_* "
                  "must be the same on all ranks",
                  rank, gli_tls_kind_text(its.tls),
                  gli_tls_kind_text(first.tls));
}

static gloo_status check_agreement(uint32_t rank, gli_agreement its,
                                   gli_agreement first, gloo_error *error) {
  const char *what, *name, *option;
  gloo_status status = check_secret(rank, its, first, error);
  if (status == GLOO_OK) status = check_tls(rank, its, first, error);
  if (status != GLOO_OK) return status;
  if (its.big_endian != first.big_endian)
    return gli_fail(error, GLOO_ERR_MISMATCH, (int)rank,
                    "rank %u is %s-endian and rank 0 is not; all ranks must "
                    "have the same byte order",
                    rank, its.big_endian ? "big" : "little");
  if (its.measures != first.measures) {
    what = its.measures ? "measures links" : "does not measure links";
    name = "GLOO_MEASURE";
    option = "measure";
  } else if (its.shared_buffers != first.shared_buffers) {
    what = its.shared_buffers ? "promises shared buffers"
                              : "does not promise shared buffers";
    name = "GLOO_SHARED_BUFFERS";
    option = "shared_buffers";
  } else {
    return GLOO_OK;
  }
  return gli_fail(error, GLOO_ERR_MISMATCH, (int)rank,
                  "rank %u %s, unlike rank 0: %s and the option `%s` must be "
                  "the same on all ranks",
                  rank, what, name, option);
}

/* Fails where ranks have different tuning tables, since they would choose
 * different algorithms. Every rank names the rank that differs from rank 0. */
static gloo_status check_tuning(const place *places, uint32_t size,
                                gloo_error *error) {
  for (uint32_t i = 1; i < size; i++) {
    gloo_status status =
        check_agreement(i, places[i].agreement, places[0].agreement, error);
    if (status != GLOO_OK) return status;
    if (places[i].tuning == places[0].tuning) continue;
    const char *how = "different choices of algorithms than";
    if (places[i].tuning == 0) how = "no choice of algorithms, unlike";
    if (places[0].tuning == 0) how = "choices of algorithms, unlike";
    return gli_fail(error, GLOO_ERR_MISMATCH, (int)i,
                    "rank %u has %s rank 0: GLOO_ALGORITHM and "
                    "GLOO_TUNING_FILE must have the same contents on all ranks",
                    i, how);
  }
  return GLOO_OK;
}

static gloo_status bootstrap_no_memory(uint32_t size, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for the addresses of %u ranks", size);
}

/* Reads the address records of the circle, and makes its ranks reachable. */
static gloo_status read_circle(gloo_context *context, const gli_circle *circle,
                               const gloo_value *records, gloo_error *error) {
  place ignored_place;
  gli_cores ignored_cores;
  gloo_status status = GLOO_OK;
  for (uint32_t i = 0; i < circle->n && status == GLOO_OK; i++) {
    uint32_t rank = circle->ranks[i];
    status = bootstrap_read_record(context, rank, &records[rank],
                                   &ignored_place, &ignored_cores, error);
  }
  return status;
}

/* Gets the records of the ranks outside the circle. A failure is published in
 * the store, because not every rank can detect it. */
static gloo_status fetch_from_tree(gloo_context *context, gloo_store *store,
                                   const gli_tree_place *at, int64_t timeout_ns,
                                   gloo_value *records, gli_attempt *attempt,
                                   gloo_error *error) {
  gloo_error cause;
  bool lost = false;
  gloo_status status = read_circle(context, &attempt->circle, records, &cause);
  if (status == GLOO_OK)
    status = gli_spread(context, at, store, RECORD_MAX_BYTES, timeout_ns,
                        attempt->deadline_ns, records, &lost, &cause);
  if (status == GLOO_OK) return status;
  if (!lost || gli_store_serves(store))
    attempt->again = gli_bootstrap_give_up(store, at->rank, at->size, true,
                                           attempt->deadline_ns, &cause);
  if (error != NULL) *error = cause;
  return cause.status;
}

/* Verifies a record's tag with the key of this rank; a mark that differs
 * indicates another secret. */
static gloo_status check_tag(gli_mac *mac, uint32_t rank,
                             const gloo_value *record, place *there,
                             gloo_error *error) {
  uint8_t tag[GLI_TAG_BYTES];
  if (mac == NULL || !there->agreement.asks) return GLOO_OK;
  const uint8_t *data = record->data;
  size_t bytes = record->bytes - GLI_TAG_BYTES;
  gloo_status status = record_tag(mac, rank, data, bytes, tag, error);
  if (status == GLOO_OK) there->forged = !gli_tags_equal(tag, data + bytes);
  return status;
}

static gloo_status read_records(gloo_context *context, uint32_t size,
                                gli_mac *mac, const gloo_value *records,
                                gloo_error *error) {
  place *places = calloc(size, sizeof *places);
  gli_cores *cores = calloc(size, sizeof *cores);
  uint64_t *keys = calloc(size, sizeof *keys);
  gloo_status status = GLOO_OK;
  if (places == NULL || cores == NULL || keys == NULL)
    status = bootstrap_no_memory(size, error);
  for (uint32_t rank = 0; rank < size && status == GLOO_OK; rank++) {
    status = bootstrap_read_record(context, rank, &records[rank], &places[rank],
                                   &cores[rank], error);
    if (status == GLOO_OK)
      status = check_tag(mac, rank, &records[rank], &places[rank], error);
  }
  if (status == GLOO_OK) status = check_tuning(places, size, error);
  if (status == GLOO_OK) status = check_records(places, size, error);
  if (status == GLOO_OK) {
    status = bootstrap_learn_hosts(context, places, cores, keys, size, error);
  }
  if (status == GLOO_OK) decide_waiting(context, size, cores);
  free(places);
  free(cores);
  free(keys);
  return status;
}

gloo_status gli_bootstrap_ranks(gloo_context *context, gloo_store *store,
                                uint64_t key, const char *host_id,
                                const gli_agreement *agreement,
                                int64_t timeout_ns, gli_meeting *meeting,
                                gloo_error *error) {
  uint32_t rank = (uint32_t)gloo_context_rank(context);
  uint32_t size = (uint32_t)gloo_context_size(context);
  const gli_tuning *tuning = gli_context_tuning(context);
  place here = {.tuning = tuning != NULL ? tuning->hash : 0,
                .agreement = *agreement};
  gli_cores cores;
  gli_cores_here(&cores);
  gloo_status status =
      gli_host_key(host_id, gli_device_transport(gli_context_device(context)),
                   &here.host, error);
  if (status != GLOO_OK) return status;
  gli_mac *mac = NULL;
  if (agreement->record_key != NULL)
    status = gli_mac_create(agreement->record_key, &mac, error);
  if (status != GLOO_OK) return status;
  uint8_t record[RECORD_MAX_BYTES];
  size_t bytes;
  status = bootstrap_write_record(record, &bytes, context, key, &here, &cores,
                                  mac, error);
  gloo_value *records = NULL;
  if (status == GLOO_OK) {
    records = calloc(size, sizeof *records);
    if (records == NULL) status = bootstrap_no_memory(size, error);
  }
  if (status != GLOO_OK) {
    gli_mac_destroy(mac);
    return status;
  }
  gli_meeting ignored = {.key = key};
  bool finishes = meeting != NULL;
  if (meeting == NULL) meeting = &ignored;
  gli_attempt *attempt = &meeting->attempt;
  if (attempt->deadline_ns == 0)
    attempt->deadline_ns = gli_deadline_after(timeout_ns);
  gli_tree_place at = gli_tree_find(rank, size);
  uint32_t circle[GLI_TREE_LINKS_MAX + 2];
  bool spreads = size >= GLI_SPREAD_RANKS_MIN;
  uint32_t n = spreads ? gli_tree_circle(&at, circle) : 0;
  attempt->circle = (gli_circle){circle, n};
  attempt->finishes = finishes || spreads;
  meeting->progress = GLI_MEETING;
  status =
      gli_bootstrap_exchange(store, rank, size, record, bytes, RECORD_MAX_BYTES,
                             timeout_ns, records, attempt, error);
  /* Ranks do not spin until they know the number of ranks that share their
   * cores. The device may have other contexts, so a failure restores the way of
   * waiting. */
  bool yields = status == GLOO_OK && spreads;
  gloo_device *device = gli_context_device(context);
  bool yielded_before = yields && gli_device_set_oversubscribed(device, true);
  if (yields)
    status = fetch_from_tree(context, store, &at, timeout_ns, records, attempt,
                             error);
  attempt->circle = (gli_circle){NULL, 0};
  if (status == GLOO_OK && spreads && !finishes) gli_bootstrap_leave(store);
  if (status == GLOO_OK) meeting->progress = GLI_MET;
  if (status == GLOO_OK) {
    status = read_records(context, size, mac, records, error);
    meeting->all_know = status == GLOO_ERR_MISMATCH || status == GLOO_ERR_AUTH;
  }
  if (yields && status != GLOO_OK)
    gli_device_set_oversubscribed(device, yielded_before);
  for (uint32_t i = 0; i < size; i++) free(records[i].data);
  free(records);
  gli_mac_destroy(mac);
  return status;
}
