#include "transport_ibv/lanes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/exhaustion.h"
#include "core/log.h"
#include "transport_ibv/ibv.h"

static gli_ibv_port *lane_port(const gli_ibv_lane *lane) {
  return &lane->of->t->rails.port[lane->rail];
}

/* ---- the end ------------------------------------------------------------- */

static void lane_destroy(gli_ibv_lane *lane) {
  const gli_verbs *v = lane_port(lane)->v;
  struct ibv_qp_attr to = {.qp_state = IBV_QPS_ERR};
  if (lane->qp == NULL) return;
  (void)v->modify_qp(lane->qp, &to, IBV_QP_STATE);
  if (v->destroy_qp(lane->qp) == 0) lane->qp = NULL;
}

static void lanes_unlink(gli_ibv_lanes *lanes) {
  gli_ibv_lanes **at = &lanes->t->rails.lanes;
  while (*at != lanes) at = &(*at)->next;
  *at = lanes->next;
  free(lanes);
}

/* Destroys the queue pairs. Completions may refer to the lanes until the queues
 * are empty. If the device refuses to destroy a queue pair, that never ends, and
 * the result is false. */
static bool lanes_stop(gli_ibv_lanes *lanes, gli_ibv_lanes_state state) {
  gli_ibv_rails *rails = &lanes->t->rails;
  bool all = true;
  lanes->state = state;
  for (uint32_t i = 0; i < lanes->n; i++) lane_destroy(&lanes->lane[i]);
  gli_ibv_rails_poll(rails);
  for (uint32_t i = 0; i < lanes->n; i++) {
    gli_ibv_lane *lane = &lanes->lane[i];
    all = all && lane->qp == NULL;
    if (lane->qp != NULL) continue;
    rails->rail[lane->rail].in_flight -= lane->posted - lane->done;
    lane->done = lane->posted;
  }
  return all;
}

static void lanes_end(gli_ibv_lanes *lanes) {
  if (lanes_stop(lanes, GLI_IBV_LANES_ENDED)) lanes_unlink(lanes);
}

void gli_ibv_lanes_leave(gli_ibv_lanes *lanes) {
  (void)lanes_stop(lanes, GLI_IBV_LANES_LEAVING);
  memset(lanes->fetch, 0, sizeof lanes->fetch);
  lanes->n_again = 0;
  lanes->up = 0;
  lanes->failed = false;
}

void gli_ibv_lanes_drop(gli_ibv_lanes *lanes) {
  bool working = lanes->state == GLI_IBV_LANES_MAKING ||
                 lanes->state == GLI_IBV_LANES_CONNECTING;
  lanes->pair = NULL;
  if (working && !gli_ibv_job_cancel(lanes->t, &lanes->job))
    lanes->state = GLI_IBV_LANES_DOOMED;
  else
    lanes_end(lanes);
}

void gli_ibv_lanes_free(gli_ibv_rails *rails) {
  while (rails->lanes != NULL) {
    gli_ibv_lanes *lanes = rails->lanes;
    for (uint32_t i = 0; i < lanes->n; i++) lane_destroy(&lanes->lane[i]);
    lanes_unlink(lanes);
  }
}

void gli_ibv_lanes_abandon(gli_ibv_rails *rails) {
  while (rails->lanes != NULL) {
    gli_ibv_lanes *lanes = rails->lanes;
    rails->lanes = lanes->next;
    free(lanes);
  }
}

void gli_ibv_lanes_lose(gli_ibv_rails *rails, uint32_t rail, const char *how) {
  char why[64];
  (void)snprintf(why, sizeof why, "the device %s", how);
  for (gli_ibv_lanes *lanes = rails->lanes; lanes != NULL;
       lanes = lanes->next) {
    if (lanes->state != GLI_IBV_LANES_WORK) continue; /* a thread has them */
    for (uint32_t i = 0; i < lanes->n; i++) {
      if (lanes->lane[i].rail != rail) continue;
      lane_destroy(&lanes->lane[i]); /* its parts are read again */
      gli_ibv_lane_fail(&lanes->lane[i], why);
      lanes->busy(lanes->pair);
    }
  }
}

/* ---- making -------------------------------------------------------------- */

static const char *lane_make(gli_ibv_lane *lane) {
  gli_ibv_port *port = lane_port(lane);
  struct ibv_qp_init_attr as = {
      .send_cq = port->cq,
      .recv_cq = port->cq,
      .cap = {.max_send_wr = GLI_IBV_LANE_DEPTH, .max_send_sge = 1},
      .qp_type = IBV_QPT_RC};
  const char *lacks = gli_ibv_qp_psn(&lane->psn);
  if (lacks != NULL) return lacks;
  lane->qp = port->v->create_qp(port->pd, &as);
  return lane->qp == NULL
             ? "a queue pair"
             : gli_ibv_qp_init(port, lane->qp, IBV_ACCESS_REMOTE_READ);
}

static void lane_left_out(const gli_ibv_lane *lane, const char *lacks,
                          int code) {
  gli_log(GLOO_LOG_INFO,
          "rail %s is not used between ranks %" PRIu32 " and %" PRIu32
          ": it lacks %s: %s",
          lane_port(lane)->name, lane->of->self, lane->of->other, lacks,
          gli_exhaustion_text(code));
}

static void lanes_make_run(gli_ibv_job *job) {
  gli_ibv_lanes *lanes = (gli_ibv_lanes *)job;
  const gli_ibv_rails *rails = &lanes->t->rails;
  for (uint32_t i = 0; i < rails->n; i++) {
    gli_ibv_lane *lane = &lanes->lane[lanes->n];
    *lane = (gli_ibv_lane){.of = lanes, .rail = i};
    const char *lacks = lane_make(lane);
    if (lacks != NULL) {
      lane_left_out(lane, lacks, errno);
      lane_destroy(lane);
    } else {
      lanes->n++;
    }
  }
}

/* Takes the lanes back from a thread. Returns false if they have ended. A job
 * without a thread leaves its lanes as they were. */
static bool lanes_back(gli_ibv_lanes *lanes) {
  if (lanes->state == GLI_IBV_LANES_DOOMED) {
    lanes_end(lanes);
    return false;
  }
  if (lanes->job.lacks != NULL)
    gli_log(GLOO_LOG_INFO,
            "no rails are used between ranks %" PRIu32 " and %" PRIu32
            ": they lack %s: %s",
            lanes->self, lanes->other, lanes->job.lacks,
            gli_exhaustion_text(lanes->job.code));
  return true;
}

static void lanes_make_end(gli_ibv_job *job) {
  gli_ibv_lanes *lanes = (gli_ibv_lanes *)job;
  if (!lanes_back(lanes)) return;
  lanes->state = GLI_IBV_LANES_MADE;
  lanes->busy(lanes->pair);
}

static void lanes_work(gli_ibv_lanes *lanes, void (*run)(gli_ibv_job *),
                       void (*end)(gli_ibv_job *)) {
  lanes->job.run = run;
  lanes->job.end = end;
  lanes->job.owner = lanes;
  gli_ibv_job_begin(lanes->t, &lanes->job);
}

gli_ibv_lanes *gli_ibv_lanes_begin(gli_ibv_pair *pair,
                                   void (*busy)(gli_ibv_pair *pair)) {
  gli_ibv_lanes *lanes = calloc(1, sizeof *lanes);
  if (lanes == NULL) return NULL;
  lanes->t = pair->t;
  lanes->pair = pair;
  lanes->busy = busy;
  lanes->self = pair->config.self_rank;
  lanes->other = pair->config.peer_rank;
  lanes->next = pair->t->rails.lanes;
  pair->t->rails.lanes = lanes;
  lanes_work(lanes, lanes_make_run, lanes_make_end);
  return lanes;
}

/* ---- matching ------------------------------------------------------------ */

/* Returns the number of common first bits of two GIDs. They count up to the length
 * of a usual subnet. */
static int gid_nearness(const gli_ibv_peer *a, const gli_ibv_peer *b) {
  int most = a->infiniband ? 64 : 120, n = 0;
  while (n < most &&
         ((a->gid.raw[n / 8] ^ b->gid.raw[n / 8]) >> (7 - n % 8) & 1) == 0)
    n++;
  return n;
}

/* Joins rails of both ends: first those whose addresses have most in common, in
 * their order, which both ends find alike. */
static void lanes_match(gli_ibv_lanes *lanes) {
  gli_ibv_lane own[GLI_IBV_RAILS_MAX];
  bool used[2][GLI_IBV_RAILS_MAX] = {{false}};
  uint32_t n_own = lanes->n, n_far = lanes->n_far;
  bool lower = lanes->self < lanes->other;
  memcpy(own, lanes->lane, sizeof own);
  lanes->n = 0;
  for (;;) {
    uint32_t n_a = lower ? n_own : n_far, n_b = lower ? n_far : n_own;
    uint32_t i = 0, k = 0;
    int best = -1;
    for (uint32_t a = 0; a < n_a; a++)
      for (uint32_t b = 0; b < n_b; b++) {
        uint32_t mine = lower ? a : b, theirs = lower ? b : a;
        const gli_ibv_port *port = lane_port(&own[mine]);
        gli_ibv_peer near = {.infiniband = port->infiniband, .gid = port->gid};
        const gli_ibv_peer *far = &lanes->far[theirs].peer;
        int nearness = gid_nearness(&near, far);
        if (used[0][mine] || used[1][theirs] || nearness <= best ||
            far->infiniband != near.infiniband)
          continue;
        best = nearness;
        i = mine;
        k = theirs;
      }
    if (best < 0) break;
    used[0][i] = used[1][k] = true;
    lanes->lane[lanes->n] = own[i];
    lanes->lane[lanes->n++].far = lanes->far[k];
  }
  for (uint32_t i = 0; i < n_own; i++)
    if (!used[0][i]) lane_destroy(&own[i]);
}

/* ---- connecting ---------------------------------------------------------- */

static void lanes_connect_run(gli_ibv_job *job) {
  gli_ibv_lanes *lanes = (gli_ibv_lanes *)job;
  for (uint32_t i = 0; i < lanes->n; i++) {
    const gli_ibv_lane *lane = &lanes->lane[i];
    const gli_ibv_port *port = lane_port(lane);
    const char *lacks =
        gli_ibv_qp_connect(port, lane->qp, lane->psn, &lane->far.peer);
    int code = errno;
    if (lacks == NULL && gli_ibv_qp_reads(port, &lane->far.peer) == 0) {
      lacks = "RDMA reads";
      code = EOPNOTSUPP;
    }
    if (lacks == NULL)
      lanes->connected |= 1u << i;
    else
      lane_left_out(lane, lacks, code);
  }
}

static void lanes_connect_end(gli_ibv_job *job) {
  gli_ibv_lanes *lanes = (gli_ibv_lanes *)job;
  if (!lanes_back(lanes)) return;
  lanes->state = GLI_IBV_LANES_WORK;
  for (uint32_t i = 0; i < lanes->n; i++)
    if (lanes->t->rails.rail[lanes->lane[i].rail].lost)
      lanes->connected &= ~(1u << i);
  lanes->busy(lanes->pair);
}

/* Connects once both ends have offered, each with its lanes in their first
 * order. */
static void lanes_connect(gli_ibv_lanes *lanes) {
  if (lanes->said == GLI_IBV_LANES_NONE || lanes->heard == GLI_IBV_LANES_NONE)
    return;
  lanes_match(lanes);
  lanes->state = GLI_IBV_LANES_CONNECTING;
  lanes_work(lanes, lanes_connect_run, lanes_connect_end);
}

/* ---- notes --------------------------------------------------------------- */

/* An offer has for each lane: 5 offer (qp.h)  40 address and 48 key of memory. */
static size_t lanes_write_offer(const gli_ibv_lanes *lanes, uint8_t *data) {
  memset(data, 0, GLI_IBV_LANE_NOTE_MAX);
  for (uint32_t i = 0; i < lanes->n; i++, data += GLI_IBV_LANE_BYTES) {
    const gli_ibv_lane *lane = &lanes->lane[i];
    const gli_ibv_rail *rail = &lanes->t->rails.rail[lane->rail];
    gli_ibv_qp_offer(lane_port(lane), lane->qp, lane->psn, data);
    gli_put_u64(data + GLI_IBV_OFFER_BYTES, (uintptr_t)rail->memory);
    gli_put_u32(data + GLI_IBV_OFFER_BYTES + 8, rail->mr->rkey);
  }
  return lanes->n * GLI_IBV_LANE_BYTES;
}

static bool lanes_read_offer(gli_ibv_lanes *lanes, const uint8_t *data,
                             size_t bytes) {
  if (bytes % GLI_IBV_LANE_BYTES != 0 || bytes > GLI_IBV_LANE_NOTE_MAX)
    return false;
  for (; bytes > 0; bytes -= GLI_IBV_LANE_BYTES, data += GLI_IBV_LANE_BYTES) {
    gli_ibv_far *far = &lanes->far[lanes->n_far++];
    if (!gli_ibv_offer_read(data, &far->peer)) return false;
    far->trial = gli_get_u64(data + GLI_IBV_OFFER_BYTES);
    far->key = gli_get_u32(data + GLI_IBV_OFFER_BYTES + 8);
  }
  return true;
}

gli_ibv_lane_note gli_ibv_lanes_say(gli_ibv_lanes *lanes, uint8_t *data,
                                    size_t *bytes) {
  if (lanes->state == GLI_IBV_LANES_MADE && lanes->said == GLI_IBV_LANES_NONE) {
    *bytes = lanes_write_offer(lanes, data);
    lanes->said = GLI_IBV_LANES_OFFER;
    lanes_connect(lanes);
    return GLI_IBV_LANES_OFFER;
  }
  if (lanes->state == GLI_IBV_LANES_LEAVING &&
      lanes->said != GLI_IBV_LANES_LEFT) {
    *bytes = 0;
    return lanes->said = GLI_IBV_LANES_LEFT;
  }
  if (lanes->state != GLI_IBV_LANES_WORK) return GLI_IBV_LANES_NONE;
  *bytes = 4;
  if (lanes->said == GLI_IBV_LANES_OFFER) {
    gli_put_u32(data, lanes->connected);
    return lanes->said = GLI_IBV_LANES_CONNECTED;
  }
  if ((lanes->up & ~lanes->up_said) == 0) return GLI_IBV_LANES_NONE;
  lanes->up_said |= lanes->up;
  gli_ibv_lanes_log(lanes);
  gli_put_u32(data, lanes->up_said);
  return lanes->said = GLI_IBV_LANES_READY;
}

bool gli_ibv_lanes_hear(gli_ibv_lanes *lanes, uint32_t note,
                        const uint8_t *data, size_t bytes) {
  if (note == GLI_IBV_LANES_OFFER) {
    if (lanes->heard != GLI_IBV_LANES_NONE ||
        !lanes_read_offer(lanes, data, bytes))
      return false;
    lanes->heard = GLI_IBV_LANES_OFFER;
    lanes_connect(lanes);
    return true;
  }
  if (bytes != 4 || lanes->said < GLI_IBV_LANES_OFFER) return false;
  uint32_t set = gli_get_u32(data);
  if (note == GLI_IBV_LANES_CONNECTED && lanes->heard == GLI_IBV_LANES_OFFER) {
    if (set >> lanes->n != 0) return false;
    lanes->heard = GLI_IBV_LANES_CONNECTED;
    lanes->far_connected = set;
    return true;
  }
  if (note != GLI_IBV_LANES_READY || lanes->heard < GLI_IBV_LANES_CONNECTED ||
      lanes->said < GLI_IBV_LANES_CONNECTED ||
      (set & ~(lanes->connected & lanes->far_connected)) != 0)
    return false;
  lanes->heard = GLI_IBV_LANES_READY;
  lanes->far_up = set;
  return true;
}
