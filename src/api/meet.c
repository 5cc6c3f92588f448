/* Meeting the other ranks: cards, and what they say of hosts. */
#include "api/meet.h"

#include <stdlib.h>
#include <string.h>

#include "api/cores.h"
#include "api/host.h"
#include "core/bytes.h"
#include "core/cpu.h"
#include "core/error.h"
#include "core/log.h"
#include "engine/engine.h"
#include "rendezvous/bootstrap.h"

/* ---- what a rank publishes ----------------------------------------------- */

/* version, key, system, host (as plans see it), usable cores, transport (16
 * bytes, zero padded), tuning, terms, mask of cores, address. */
enum {
  CARD_VERSION = 7,
  CARD_TRANSPORT_BYTES = 16,
  CARD_MASK = 4 + 8 + 8 + 8 + 4 + CARD_TRANSPORT_BYTES + 8 + 4,
  CARD_HEAD_BYTES = CARD_MASK + GLI_CPU_MASK_BYTES,
  CARD_MAX_BYTES = CARD_HEAD_BYTES + GLI_ADDRESS_MAX
};

/* How terms are written. */
enum { MEASURES = 1, SHARED_BUFFERS = 2 };

static uint32_t terms_word(const gli_terms *terms) {
  return (terms->measures ? MEASURES : 0) |
         (terms->shared_buffers ? SHARED_BUFFERS : 0);
}

static gli_terms read_terms(uint32_t word) {
  return (gli_terms){.measures = (word & MEASURES) != 0,
                     .shared_buffers = (word & SHARED_BUFFERS) != 0};
}

/* Of one rank, and the same for all who look. */
typedef struct place {
  uint64_t host;   /* see gli_host_key */
  uint64_t tuning; /* the hash of its table; 0: it has none */
  gli_terms terms;
} place;

static size_t write_card(uint8_t card[CARD_MAX_BYTES],
                         const gloo_device *device, uint64_t key,
                         const place *here, const gli_cores *cores) {
  gli_address address;
  gli_device_address(device, &address);
  memset(card, 0, CARD_HEAD_BYTES);
  gli_put_u32(card, CARD_VERSION);
  gli_put_u64(card + 4, key);
  gli_put_u64(card + 12, cores->system);
  gli_put_u64(card + 20, here->host);
  gli_put_u32(card + 28, cores->usable);
  const char *name = gli_device_transport(device);
  memcpy(card + 32, name, strlen(name));
  gli_put_u64(card + 32 + CARD_TRANSPORT_BYTES, here->tuning);
  gli_put_u32(card + 40 + CARD_TRANSPORT_BYTES, terms_word(&here->terms));
  memcpy(card + CARD_MASK, cores->mask, sizeof cores->mask);
  memcpy(card + CARD_HEAD_BYTES, address.data, address.bytes);
  return CARD_HEAD_BYTES + address.bytes;
}

static gloo_status read_card(gloo_context *context, uint32_t rank,
                             const gloo_value *card, place *there,
                             gli_cores *cores, gloo_error *error) {
  const uint8_t *data = card->data;
  if (card->bytes < CARD_HEAD_BYTES || card->bytes > CARD_MAX_BYTES ||
      gli_get_u32(data) != CARD_VERSION) {
    return gli_fail(error, GLOO_ERR_PROTOCOL, (int)rank,
                    "rank %u published something else than its address; do "
                    "all ranks run the same version of the library?",
                    rank);
  }
  char name[CARD_TRANSPORT_BYTES + 1] = "";
  memcpy(name, data + 32, CARD_TRANSPORT_BYTES);
  const char *own = gli_device_transport(gli_context_device(context));
  if (strcmp(name, own) != 0) {
    return gli_fail(error, GLOO_ERR_MISMATCH, (int)rank,
                    "rank %u uses another transport than rank %d, which uses "
                    "\"%s\"",
                    rank, gloo_context_rank(context), own);
  }
  gli_address address = {.bytes = (uint16_t)(card->bytes - CARD_HEAD_BYTES)};
  memcpy(address.data, data + CARD_HEAD_BYTES, address.bytes);
  gli_context_set_peer(context, rank, &address, gli_get_u64(data + 4));
  *there = (place){
      .host = gli_get_u64(data + 20),
      .tuning = gli_get_u64(data + 32 + CARD_TRANSPORT_BYTES),
      .terms = read_terms(gli_get_u32(data + 40 + CARD_TRANSPORT_BYTES))};
  cores->system = gli_get_u64(data + 12);
  cores->usable = gli_get_u32(data + 28);
  memcpy(cores->mask, data + CARD_MASK, sizeof cores->mask);
  return GLOO_OK;
}

/* ---- meeting ------------------------------------------------------------- */

/* All ranks read the same cards, so they see the same hosts, whatever these
 * say. `keys` is memory to work with. */
static gloo_status learn_hosts(gloo_context *context, const place *places,
                               const gli_cores *cores, uint64_t *keys,
                               uint32_t size, gloo_error *error) {
  gli_hosts *hosts;
  for (uint32_t i = 0; i < size; i++) keys[i] = places[i].host;
  gloo_status status = gli_hosts_make(keys, size, &hosts, error);
  if (status != GLOO_OK) return status;
  gli_log(GLOO_LOG_INFO, "rank %d of %u: %u hosts of %u to %u ranks",
          gloo_context_rank(context), size, hosts->n, hosts->least,
          hosts->most);
  gli_context_set_hosts(context, hosts, gli_cores_crowding(cores, size));
  gli_context_learn_nearness(context);
  return GLOO_OK;
}

/* How this rank waits goes by its own cores. */
static void settle_waiting(gloo_context *context, uint32_t size,
                           const gli_cores *cores) {
  int rank = gloo_context_rank(context);
  gloo_device *device = gli_context_device(context);
  gli_sharing s = gli_cores_shared(cores, size, (uint32_t)rank);
  gli_device_set_crowded(device, s.crowded);
  gli_log(GLOO_LOG_INFO,
          "rank %d of %u: transport %s; %u ranks share %u cores: %s", rank,
          size, gli_device_transport(device), s.ranks, s.cores,
          s.crowded ? "yield while waiting" : "spin while waiting");
  if (s.crowded && gli_log_enabled(GLOO_LOG_INFO) && gli_cpu_yields_in_vain()) {
    gli_log(GLOO_LOG_INFO,
            "rank %d of %u leads a session, and the system shares out its "
            "cores by session: ranks that yield may not let each other run. "
            "Start them all in one session, or set "
            "kernel.sched_autogroup_enabled to 0",
            rank, size);
  }
}

static gloo_status check_terms(uint32_t rank, gli_terms its, gli_terms first,
                               gloo_error *error) {
  const char *what, *name, *option;
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
  return gli_fail(
      error, GLOO_ERR_MISMATCH, (int)rank,
      "rank %u %s, unlike rank 0: %s, and `%s` in the options, must "
      "be the same on all ranks",
      rank, what, name, option);
}

/* Ranks that choose by different tables would not run the same algorithm. All
 * of them see who differs from rank 0. */
static gloo_status check_tuning(const place *places, uint32_t size,
                                gloo_error *error) {
  for (uint32_t i = 1; i < size; i++) {
    gloo_status status =
        check_terms(i, places[i].terms, places[0].terms, error);
    if (status != GLOO_OK) return status;
    if (places[i].tuning == places[0].tuning) continue;
    const char *how = "other choices of algorithms than";
    if (places[i].tuning == 0) how = "no choice of algorithms, unlike";
    if (places[0].tuning == 0) how = "choices of algorithms, unlike";
    return gli_fail(error, GLOO_ERR_MISMATCH, (int)i,
                    "rank %u was given %s rank 0: GLOO_ALGORITHM and "
                    "GLOO_TUNING_FILE must say the same on all ranks",
                    i, how);
  }
  return GLOO_OK;
}

static gloo_status no_memory(uint32_t size, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for the addresses of %u ranks", size);
}

static gloo_status read_cards(gloo_context *context, uint32_t size,
                              const gloo_value *cards, gloo_error *error) {
  place *places = calloc(size, sizeof *places);
  gli_cores *cores = calloc(size, sizeof *cores);
  uint64_t *keys = calloc(size, sizeof *keys);
  gloo_status status = GLOO_OK;
  if (!places || !cores || !keys) status = no_memory(size, error);
  for (uint32_t rank = 0; rank < size && status == GLOO_OK; rank++) {
    status = read_card(context, rank, &cards[rank], &places[rank], &cores[rank],
                       error);
  }
  if (status == GLOO_OK) status = check_tuning(places, size, error);
  if (status == GLOO_OK) {
    status = learn_hosts(context, places, cores, keys, size, error);
  }
  if (status == GLOO_OK) settle_waiting(context, size, cores);
  free(places);
  free(cores);
  free(keys);
  return status;
}

gloo_status gli_meet(gloo_context *context, gloo_store *store, uint64_t key,
                     const char *host_id, const gli_terms *terms,
                     int64_t timeout_ns, gli_meeting *meeting,
                     gloo_error *error) {
  uint32_t rank = (uint32_t)gloo_context_rank(context);
  uint32_t size = (uint32_t)gloo_context_size(context);
  const gloo_device *device = gli_context_device(context);
  const gli_tuning *tuning = gli_context_tuning(context);
  place here = {.tuning = tuning != NULL ? tuning->hash : 0, .terms = *terms};
  gli_cores cores;
  gli_cores_here(&cores);
  gloo_status status =
      gli_host_key(host_id, gli_device_transport(device), &here.host, error);
  if (status != GLOO_OK) return status;
  gloo_value *cards = calloc(size, sizeof *cards);
  if (!cards) return no_memory(size, error);
  uint8_t card[CARD_MAX_BYTES];
  size_t bytes = write_card(card, device, key, &here, &cores);
  gli_meeting ignored = {.key = key};
  if (meeting == NULL) meeting = &ignored;
  meeting->progress = GLI_MEETING;
  status =
      gli_bootstrap_exchange(store, rank, size, card, bytes, CARD_MAX_BYTES,
                             timeout_ns, cards, &meeting->attempt, error);
  if (status == GLOO_OK) meeting->progress = GLI_MET;
  if (status == GLOO_OK) status = read_cards(context, size, cards, error);
  for (uint32_t i = 0; i < size; i++) free(cards[i].data);
  free(cards);
  return status;
}
