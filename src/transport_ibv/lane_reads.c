/* Reads over lanes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/bytes.h"
#include "core/log.h"
#include "transport_ibv/ibv.h"
#include "transport_ibv/lanes.h"

enum {
  TRIAL = GLI_IBV_LANE_MESSAGES, /* number of no message */
  /* A lane has several parts of each payload, so that slower ones take fewer. */
  PARTS_PER_LANE = 8,
  PART_MIN = 64 << 10,
  PART_MAX = 1 << 20,
  PART_UNIT = 4096
};

static gli_ibv_rail *lane_rail_of(const gli_ibv_lane *lane) {
  return &lane->of->t->rails.rail[lane->rail];
}
static const gli_ibv_port *lane_port_of(const gli_ibv_lane *lane) {
  return &lane->of->t->rails.port[lane->rail];
}
static uint32_t lane_bit(const gli_ibv_lane *lane) {
  return 1u << (lane - lane->of->lane);
}

/* ---- failures ------------------------------------------------------------ */

static void read_again(gli_ibv_lanes *lanes, const gli_ibv_read *read) {
  if (read->message != TRIAL) lanes->again[lanes->n_again++] = *read;
}

/* A lost rail has no more completions. */
static void lane_take_back(gli_ibv_lane *lane) {
  for (; lane->done != lane->posted; lane->done++) {
    read_again(lane->of, &lane->read[lane->done % GLI_IBV_LANE_DEPTH]);
    lane_rail_of(lane)->in_flight--;
  }
}

void gli_ibv_lane_fail(gli_ibv_lane *lane, const char *why) {
  gli_ibv_lanes *lanes = lane->of;
  uint32_t bit = lane_bit(lane);
  bool was_up = (lanes->up & bit) != 0;
  if (was_up || (lanes->tried & bit) != 0) {
    (void)snprintf(lanes->why, sizeof lanes->why, "%.60s: %.80s",
                   lane_port_of(lane)->name, why);
    gli_log(was_up ? GLOO_LOG_WARN : GLOO_LOG_INFO,
            "rank %" PRIu32 " no longer reads from rank %" PRIu32
            " over the rail %s",
            lanes->self, lanes->other, lanes->why);
  }
  lanes->up &= ~bit;
  lanes->tried &= ~bit;
  if (lane_rail_of(lane)->lost) lane_take_back(lane);
}

/* ---- completions --------------------------------------------------------- */

/* Returns true if another lane may succeed: the path or the device fails. */
static bool read_may_recover(enum ibv_wc_status status) {
  return status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_WR_FLUSH_ERR ||
         status == IBV_WC_FATAL_ERR || status == IBV_WC_RESP_TIMEOUT_ERR;
}

static void read_failed(gli_ibv_lane *lane, const gli_ibv_read *read,
                        enum ibv_wc_status status) {
  gli_ibv_lanes *lanes = lane->of;
  gli_ibv_lane_fail(lane, lane_port_of(lane)->v->wc_status_str(status));
  if (read->message != TRIAL && !read_may_recover(status)) lanes->failed = true;
  read_again(lanes, read);
}

void gli_ibv_read_done(const struct ibv_wc *wc) {
  gli_ibv_lane *lane = (gli_ibv_lane *)(uintptr_t)wc->wr_id;
  gli_ibv_lanes *lanes = lane->of;
  const gli_ibv_read read = lane->read[lane->done % GLI_IBV_LANE_DEPTH];
  lane->done++;
  lane_rail_of(lane)->in_flight--;
  lanes->t->happened++;
  if (lanes->state != GLI_IBV_LANES_WORK) return;
  if (wc->status != IBV_WC_SUCCESS) {
    read_failed(lane, &read, wc->status);
  } else if (read.message == TRIAL) {
    lanes->up |= lanes->tried & lane_bit(lane);
    lanes->tried &= ~lane_bit(lane);
  } else {
    lanes->fetch[read.message].done += read.bytes;
  }
}

/* ---- posting ------------------------------------------------------------- */

static bool lane_has_room(const gli_ibv_lane *lane) {
  return lane->posted - lane->done < GLI_IBV_LANE_DEPTH &&
         (int)lane_rail_of(lane)->in_flight < lane_port_of(lane)->cq_entries;
}

/* Posts a read of [from, from + bytes) to `to`. */
static void read_post(gli_ibv_lane *lane, const gli_ibv_read *read, uint8_t *to,
                      uint32_t lkey, uint64_t from, uint32_t rkey) {
  gli_ibv_rails *rails = &lane->of->t->rails;
  struct ibv_sge part = {
      .addr = (uintptr_t)to, .length = read->bytes, .lkey = lkey};
  struct ibv_send_wr *bad, wr = {.wr_id = (uintptr_t)lane,
                                 .sg_list = &part,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_RDMA_READ,
                                 .send_flags = IBV_SEND_SIGNALED};
  wr.wr.rdma.remote_addr = from;
  wr.wr.rdma.rkey = rkey;
  lane->read[lane->posted % GLI_IBV_LANE_DEPTH] = *read;
  int code = gli_ibv_rail_arm(rails, lane->rail)
                 ? ibv_post_send(lane->qp, &wr, &bad)
                 : 0;
  if (code == 0 && !lane_rail_of(lane)->lost) {
    lane->posted++;
    lane_rail_of(lane)->in_flight++;
    return;
  }
  gli_ibv_lane_fail(lane, code != 0 ? strerror(code) : "the device is lost");
  read_again(lane->of, read);
}

/* Tries each lane that both ends have connected, once its queue has room. Returns
 * true if one is left. */
static bool trials_post(gli_ibv_lanes *lanes) {
  uint32_t both = lanes->connected & lanes->far_connected;
  for (uint32_t i = 0; i < lanes->n; i++) {
    gli_ibv_lane *lane = &lanes->lane[i];
    const gli_ibv_rail *rail = lane_rail_of(lane);
    const gli_ibv_read read = {.message = TRIAL, .bytes = GLI_IBV_TRIAL_BYTES};
    if ((both & ~lanes->begun & lane_bit(lane)) == 0 || !lane_has_room(lane))
      continue;
    lanes->begun |= lane_bit(lane);
    lanes->tried |= lane_bit(lane);
    read_post(lane, &read, rail->memory + GLI_IBV_TRIAL_BYTES, rail->mr->lkey,
              lane->far.trial, lane->far.key);
  }
  return (both & ~lanes->begun) != 0;
}

/* Takes the next part. Returns false if there is none. */
static bool part_next(gli_ibv_lanes *lanes, gli_ibv_read *read) {
  if (lanes->n_again > 0) {
    *read = lanes->again[--lanes->n_again];
    return true;
  }
  for (uint32_t n = 0; n < GLI_IBV_LANE_MESSAGES; n++) {
    gli_ibv_fetch *fetch = &lanes->fetch[n];
    uint64_t left = fetch->bytes - fetch->begun;
    if (left == 0) continue;
    *read = (gli_ibv_read){
        .message = n,
        .at = fetch->begun,
        .bytes = left < fetch->part ? (uint32_t)left : fetch->part};
    fetch->begun += read->bytes;
    return true;
  }
  return false;
}

/* Lets each lane in turn take a part, as long as lanes have room. */
static void parts_post(gli_ibv_lanes *lanes) {
  gli_ibv_read read;
  for (uint32_t idle = 0; idle < lanes->n && lanes->up != 0;) {
    uint32_t i = lanes->turn++ % lanes->n;
    gli_ibv_lane *lane = &lanes->lane[i];
    if ((lanes->up & 1u << i) == 0 || !lane_has_room(lane)) {
      idle++;
      continue;
    }
    if (!part_next(lanes, &read)) return;
    const gli_ibv_fetch *fetch = &lanes->fetch[read.message];
    read_post(lane, &read, fetch->to + read.at, fetch->lkey[i],
              fetch->from + read.at, fetch->rkey[i]);
    idle = 0;
  }
}

static bool lanes_fetch_any(const gli_ibv_lanes *lanes) {
  for (uint32_t n = 0; n < GLI_IBV_LANE_MESSAGES; n++)
    if (lanes->fetch[n].bytes > 0) return true;
  return false;
}

bool gli_ibv_lanes_serve(gli_ibv_lanes *lanes) {
  if (lanes->state != GLI_IBV_LANES_WORK) return false;
  gli_ibv_rails_poll(&lanes->t->rails);
  bool tries = trials_post(lanes);
  parts_post(lanes);
  bool fetches = lanes_fetch_any(lanes);
  if (fetches && lanes->up == 0) lanes->failed = true;
  return fetches || tries || lanes->tried != 0;
}

/* ---- payloads ------------------------------------------------------------ */

static const struct ibv_mr *mr_of(const gli_ibv_lane *lane,
                                  struct ibv_mr *const *mr) {
  return mr[lane_rail_of(lane)->home];
}

size_t gli_ibv_lanes_keys(gli_ibv_lanes *lanes, const void *payload,
                          size_t bytes, uint8_t *keys) {
  struct ibv_mr *mr[GLI_IBV_RAILS_MAX + 1];
  if (lanes->far_up == 0 ||
      !gli_ibv_registered_rails(lanes->t, payload, bytes, mr))
    return 0;
  gli_put_u64(keys, (uintptr_t)payload);
  for (uint32_t i = 0; i < lanes->n; i++) {
    const struct ibv_mr *one = mr_of(&lanes->lane[i], mr);
    if (one == NULL) return 0;
    gli_put_u32(keys + 8 + 4 * i, one->rkey);
  }
  return 8 + 4 * (size_t)lanes->n;
}

bool gli_ibv_lanes_allow(const gli_ibv_lanes *lanes, size_t keys_bytes) {
  return lanes->up_said != 0 && keys_bytes == 8 + 4 * (size_t)lanes->n;
}

bool gli_ibv_lanes_fetch(gli_ibv_lanes *lanes, uint32_t message, void *to,
                         size_t bytes, const uint8_t *keys) {
  struct ibv_mr *mr[GLI_IBV_RAILS_MAX + 1];
  gli_ibv_fetch *fetch = &lanes->fetch[message];
  if (lanes->up == 0 || !gli_ibv_registered_rails(lanes->t, to, bytes, mr))
    return false;
  for (uint32_t i = 0; i < lanes->n; i++) {
    const struct ibv_mr *one = mr_of(&lanes->lane[i], mr);
    if (one == NULL) return false;
    fetch->lkey[i] = one->lkey;
    fetch->rkey[i] = gli_get_u32(keys + 8 + 4 * i);
  }
  size_t part = bytes / (lanes->n * PARTS_PER_LANE);
  part = part < PART_MIN ? PART_MIN : part > PART_MAX ? PART_MAX : part;
  fetch->part = (uint32_t)((part + PART_UNIT - 1) / PART_UNIT * PART_UNIT);
  fetch->to = to;
  fetch->from = gli_get_u64(keys);
  fetch->begun = fetch->done = 0;
  fetch->bytes = bytes;
  return true;
}

bool gli_ibv_lanes_fetched(gli_ibv_lanes *lanes, uint32_t message) {
  gli_ibv_fetch *fetch = &lanes->fetch[message];
  if (fetch->bytes == 0 || fetch->done < fetch->bytes) return false;
  fetch->bytes = fetch->begun = 0;
  return true;
}

/* ---- what lanes there are ------------------------------------------------ */

const char *gli_ibv_lanes_route(const gli_ibv_lanes *lanes) {
  static const char *const route[GLI_IBV_RAILS_MAX + 1] = {"RDMA",
                                                           "RDMA",
                                                           "RDMA over 2 ports",
                                                           "RDMA over 3 ports",
                                                           "RDMA over 4 ports",
                                                           "RDMA over 5 ports",
                                                           "RDMA over 6 ports",
                                                           "RDMA over 7 ports",
                                                           "RDMA over 8 ports"};
  uint32_t n = 0;
  for (uint32_t i = 0; i < GLI_IBV_RAILS_MAX; i++) n += lanes->up >> i & 1;
  return route[n];
}

void gli_ibv_lanes_log(const gli_ibv_lanes *lanes) {
  char text[GLI_IBV_RAILS_MAX * GLI_IBV_NAME_BYTES];
  size_t used = 0;
  text[0] = '\0';
  for (uint32_t i = 0; i < lanes->n && used < sizeof text; i++)
    if ((lanes->up >> i & 1) != 0)
      used += (size_t)snprintf(text + used, sizeof text - used, "%s%s",
                               used > 0 ? ", " : "",
                               lane_port_of(&lanes->lane[i])->name);
  gli_log(GLOO_LOG_INFO,
          "rank %" PRIu32 " reads long messages from rank %" PRIu32
          " over the rails %s",
          lanes->self, lanes->other, text);
}
