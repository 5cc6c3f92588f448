/* The functions that transports call when something arrives, was sent, or
 * broke. */
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/error.h"
#include "core/hints.h"
#include "core/log.h"
#include "engine/contexts/contexts.h"
#include "engine/drive/drive.h"
#include "engine/failure/council.h"
#include "engine/failure/failure.h"
#include "engine/match/match.h"
#include "engine/memory/memory.h"
#include "engine/rma/rma.h"
#include "engine/run/in_order.h"
#include "engine/state/fail.h"
#include "engine/state/signature.h"
#include "engine/wire/wire.h"

/* A token that is no transfer, for messages without payload. */
static char nothing;

/* ---- ABORT --------------------------------------------------------------- */

/* Takes an ABORT. Its status, rank and text are not trusted. */
static void take_abort(gli_link *link, const uint8_t *data, size_t bytes) {
  gloo_error cause;
  gli_error_clear(&cause);
  gloo_context *context = link->context;
  int status = bytes >= 8 ? (int)(int32_t)gli_get_u32(data) : 0;
  uint32_t rank = bytes >= 8 ? gli_get_u32(data + 4) : UINT32_MAX;
  char text[GLOO_ERROR_MESSAGE_BYTES] = "";
  if (bytes > 8) memcpy(text, data + 8, bytes - 8);
  text[sizeof text - 1] = '\0';
  if (!gli_is_failure(status) || status == GLOO_ERR_FORKED ||
      status == GLOO_ERR_POISONED) {
    status = GLOO_ERR_PEER; /* not a valid cause */
  }
  int at_fault = rank < context->size ? (int)rank : (int)link->rank;
  /* The rank at fault may be unknown in a timeout or a mismatch. */
  if (rank == UINT32_MAX &&
      (status == GLOO_ERR_MISMATCH || status == GLOO_ERR_TIMEOUT))
    at_fault = -1;
  gli_fail(&cause, (gloo_status)status, at_fault, "reported by rank %u: %s",
           link->rank, text);
  if (at_fault == (int)context->rank) gli_link_explain(link, &cause);
  link->failed = true; /* the peer has closed its side */
  if (context->shrink != NULL)
    gli_shrink_lost(link, cause.message);
  else
    gli_context_poison(context, &cause);
}

/* Keeps a message until all of it has arrived: ABORT and MEMBERS. */
static gloo_status keep_whole(gli_link *link, const gli_header *h,
                              gli_sink *sink, gloo_error *error) {
  gli_early *early = gli_early_new(link, h, h->length);
  gli_transfer *t = early != NULL ? gli_transfer_new(link) : NULL;
  if (t == NULL) {
    if (early != NULL) gli_early_free(early);
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for a message from rank %u", link->rank);
  }
  t->early = early;
  gli_transfer_list_add(&link->arriving, t);
  *sink = (gli_sink){.dst = early->data, .token = t};
  return GLOO_OK;
}

static bool is_kept_whole(const gli_early *early) {
  return early->header.type == GLI_MESSAGE_ABORT ||
         early->header.type == GLI_MESSAGE_MEMBERS;
}

static void whole_received(gli_transfer *t) {
  gli_link *link = t->link;
  gli_early *early = t->early;
  gli_transfer_list_remove(&link->arriving, t);
  gli_transfer_free(t);
  if (early->header.type == GLI_MESSAGE_ABORT)
    take_abort(link, early->data, (size_t)early->header.length);
  else
    gli_shrink_arrived(link, &early->header, early->data);
  gli_early_free(early);
}

static gloo_status abort_header(gli_link *link, const gli_header *h,
                                gli_sink *sink, gloo_error *error) {
  if (h->length > GLI_ABORT_MAX)
    return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                    "rank %u sent an abort message of invalid length",
                    link->rank);
  return keep_whole(link, h, sink, error);
}

static gloo_status members_header(gli_link *link, const gli_header *h,
                                  gli_sink *sink, gloo_error *error) {
  const gloo_context *context = link->context;
  if (context->shrink == NULL || h->length != context->size)
    return gli_fail(
        error, GLOO_ERR_PROTOCOL, (int)link->rank,
        "rank %u sent a shrink message, but no shrink is in progress",
        link->rank);
  return keep_whole(link, h, sink, error);
}

static void window_received(gli_transfer *t) {
  gloo_context *context = t->link->context;
  gloo_error error;
  gli_error_clear(&error);
  if (gli_rma_arrived(t, &error) != GLOO_OK)
    gli_context_poison(context, &error);
}

/* ---- upcalls ------------------------------------------------------------- */

static gloo_status fail_unknown(const gli_link *link, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                  "rank %u sent a message for an unknown group or collective",
                  link->rank);
}

static gloo_status receive_share_done(gli_link *link, const gli_header *h,
                                      gloo_error *error) {
  gli_operation *done;
  uint32_t step;
  gloo_status status = gli_shared_copy_ended(link, h, &done, &step, error);
  if (status == GLOO_OK && done != NULL) gli_receive_done(done, step);
  return status;
}

static gloo_status dispatch_message(gli_link *link, const gli_header *h,
                                    gli_sink *sink, gloo_error *error) {
  if (h->credit != link->credit.acked) {
    gloo_status status = gli_wire_credit(link, h->credit, error);
    if (status != GLOO_OK) return status;
  }
  gloo_status status = GLOO_OK;
  switch ((gli_message_type)h->type) {
    case GLI_MESSAGE_DATA:
      status = gli_receive_data(link, h, sink, error);
      if (link->leaving.announced && status == GLOO_OK)
        gli_group_check_departing(link);
      return status;
    case GLI_MESSAGE_RTS:
      return gli_receive_rts(link, h, error);
    case GLI_MESSAGE_CTS:
      return gli_receive_cts(link, h, error);
    case GLI_MESSAGE_ABORT:
      if (link->group.base != link) return fail_unknown(link, error);
      return abort_header(link, h, sink, error);
    case GLI_MESSAGE_BYE:
      if (link->group.base != link) return fail_unknown(link, error);
      link->leaving.said_bye = true;
      gli_heartbeat_departed(link);
      gli_link_departed(link);
      gli_group_base_departed(link);
      if (link->context->shrink != NULL) gli_shrink_lost(link, "it has left");
      return GLOO_OK;
    case GLI_MESSAGE_PROBE:
      return gli_blame_probed(link, h, error);
    case GLI_MESSAGE_WAITING:
      gli_blame_answered(link, h);
      return GLOO_OK;
    case GLI_MESSAGE_READ_DONE:
      return gli_expose_read_done(link, h, error);
    case GLI_MESSAGE_SHARE:
      gli_shared_copy_asked(link, h);
      return GLOO_OK;
    case GLI_MESSAGE_SHARE_DONE:
      return receive_share_done(link, h, error);
    case GLI_MESSAGE_DEPARTED:
      gli_group_departs(link, h);
      return GLOO_OK;
    case GLI_MESSAGE_LINK:
      return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                      "rank %u announced another message path, which this rank "
                      "does not support",
                      link->rank);
    case GLI_MESSAGE_RMA:
      return gli_rma_arrives(link, h, sink, error);
    case GLI_MESSAGE_ALIVE:
      if (link->group.base != link) return fail_unknown(link, error);
      gli_heartbeat_heard(link, h);
      return GLOO_OK;
    case GLI_MESSAGE_ASK:
      return gli_dispute_asked(link, h, error);
    case GLI_MESSAGE_CALLED:
      gli_link_votes(link, h);
      return GLOO_OK;
    case GLI_MESSAGE_MEMBERS:
      return members_header(link, h, sink, error);
    case GLI_MESSAGE_CREDIT:
    case GLI_MESSAGE_TYPES:
      break;
  }
  return GLOO_OK;
}

/* Begins a dispute about a mismatch. Returns true if the context continues
 * until other ranks have answered. */
static bool upcalls_dispute(gli_link *link, const gli_header *h, gli_sink *sink,
                            gloo_error *error) {
  if (error->status != GLOO_ERR_MISMATCH || link == NULL) return false;
  gli_header own;
  bool known = gli_match_own(link, h, &own);
  if (!gli_link_disputes(link, known ? &own : NULL, h, error)) return false;
  *sink = (gli_sink){.token = &nothing};
  gli_sink_nowhere(sink, h->length);
  return true;
}

/* Handles a message in a council (failure/council.h), where an error fails the
 * connection and not the context. Other messages are not allowed there. */
static gloo_status council_header(gli_link *link, const gli_header *h,
                                  gli_sink *sink) {
  gloo_error error;
  gloo_status status = GLOO_OK;
  *sink = (gli_sink){.token = &nothing};
  bool about = h->type == GLI_MESSAGE_MEMBERS || h->type == GLI_MESSAGE_ABORT ||
               h->type == GLI_MESSAGE_BYE;
  if (!about || h->context != 0)
    status = fail_unknown(link, &error);
  else
    status = dispatch_message(link, h, sink, &error);
  if (status == GLOO_OK) return GLOO_OK;
  if (status == GLOO_ERR_NO_MEMORY) {
    gli_context_poison(link->context, &error);
  } else {
    link->failed = true;
    gli_shrink_lost(link, error.message);
  }
  return status;
}

static gloo_status engine_on_header(void *pair_user, const gli_header *h,
                                    gli_sink *sink) {
  gli_link *link = pair_user;
  gloo_context *context = link->context;
  if (gli_context_poisoned(context)) return context->cause.status;
  if (context->shrink != NULL) {
    gloo_status council = council_header(link, h, sink);
    gli_device_run(context->device);
    return council;
  }
  gloo_error error;
  gli_error_clear(&error);
  *sink = (gli_sink){.token = &nothing};
  if (h->context != 0) link = gli_group_find_link(link, h, &error);
  gloo_status status = error.status;
  if (status == GLOO_OK && h->collective >= GLI_COLLECTIVES) {
    status = fail_unknown(pair_user, &error);
  }
  if (status == GLOO_OK) {
    status = link != NULL ? dispatch_message(link, h, sink, &error)
                          : gli_group_is_gone(pair_user, h, sink, &error);
  }
  if (upcalls_dispute(link, h, sink, &error))
    status = GLOO_OK;
  else if (status != GLOO_OK)
    gli_context_poison(link != NULL ? link->context : context, &error);
  gli_device_run(context->device);
  return status;
}

/* Takes a message for a step that is ready. Other messages take the ordinary
 * path. */
GLI_COLD static gloo_status match_message(void *pair_user, const gli_header *h,
                                          const void *payload, bool *taken) {
  gli_link *link = pair_user;
  gloo_context *context = link->context;
  if (h->type != GLI_MESSAGE_DATA || h->form != GLI_FORM_BYTES) return GLOO_OK;
  if (context->shrink != NULL) return GLOO_OK; /* refused by engine_on_header */
  if (gli_context_poisoned(context)) return context->cause.status;
  gloo_error error;
  error.status = GLOO_OK;
  if (h->context != 0) link = gli_group_find_link(link, h, &error);
  if (link == NULL || link->leaving.announced)
    return GLOO_OK; /* handled by engine_on_header */
  if (link->awaits != NULL && gli_in_order_message(link, h, payload)) {
    *taken = true;
    gli_device_run(context->device);
    return GLOO_OK;
  }
  *taken = gli_receive_message(link, h, payload, &error);
  if (error.status != GLOO_OK) gli_context_poison(link->context, &error);
  gli_device_run(context->device);
  return error.status;
}

static gloo_status engine_on_message(void *pair_user, const gli_header *h,
                                     const void *payload, bool *taken) {
  gli_link *link = pair_user;
  if (link->awaits == NULL || !gli_in_order_message(link, h, payload)) {
    return match_message(pair_user, h, payload, taken);
  }
  *taken = true;
  gli_device_run(link->context->device);
  return GLOO_OK;
}

static void engine_on_received(void *pair_user, void *token) {
  const gli_link *from = pair_user;
  gloo_context *context = from->context;
  if (token == &nothing || gli_context_poisoned(context)) return;
  gli_transfer *t = token;
  if (t->early != NULL && is_kept_whole(t->early)) {
    whole_received(t);
  } else if (t->window != NULL) {
    window_received(t);
  } else {
    gli_received(t);
  }
  gli_device_run(context->device);
}

static void engine_on_sent(void *pair_user, gli_send_request *request) {
  const gli_link *from = pair_user;
  gli_transfer *t = (gli_transfer *)(void *)request;
  gli_transfer_list_remove(&t->link->in_flight, t);
  if (gli_context_poisoned(from->context)) {
    gli_transfer_free(t);
    return;
  }
  gli_wire_sent(t);
  gli_device_run(from->context->device);
}

static void engine_on_rma_done(void *pair_user, gli_rma_work *work) {
  const gli_link *from = pair_user;
  gloo_context *context = from->context;
  if (gli_context_poisoned(context)) return;
  gloo_error error;
  gli_error_clear(&error);
  if (gli_rma_device_done(work, &error) != GLOO_OK)
    gli_context_poison(context, &error);
}

static void engine_on_failed(void *pair_user, const gloo_error *cause) {
  gli_link *link = pair_user;
  if (link->context->shrink != NULL &&
      cause->rank != (int)link->context->rank) {
    link->failed = true;
    gli_shrink_lost(link, cause->message);
    return;
  }
  /* No other rank knows more of a malformed message, of a missing secret, or of
   * a lack of resources in this rank. */
  if (cause->status == GLOO_ERR_PROTOCOL || cause->status == GLOO_ERR_AUTH ||
      cause->rank == (int)link->context->rank) {
    gli_context_poison(link->context, cause);
    return;
  }
  link->failed = true;
  if (gli_heartbeat_gives_up(link, cause)) return;
  gli_link_suspect(link, cause);
}

/* Returns the context that a peer asks for. */
static gloo_context *engine_find_asked(const gloo_device *device, uint64_t key,
                                       uint32_t peer_rank) {
  gloo_context *context = device->contexts;
  while (context != NULL && context->key != key) context = context->next;
  if (context == NULL) return NULL;
  if (peer_rank >= context->size || peer_rank == context->rank) return NULL;
  return context;
}

/* Finds the context that a peer asks for, also if it has failed: an
 * authenticated peer learns of the failure, and another one learns why it is
 * refused. */
static bool engine_on_expect(void *device_user, uint64_t key,
                             uint32_t peer_rank, gli_pair_config *config) {
  const gloo_context *context = engine_find_asked(device_user, key, peer_rank);
  if (context == NULL || context->contacts[peer_rank].address.bytes == 0)
    return false;
  *config = gli_context_pair_config(context, peer_rank);
  return true;
}

static gli_pair *engine_on_accept(void *device_user, uint64_t key,
                                  uint32_t peer_rank) {
  gloo_device *device = device_user;
  gloo_context *context = engine_find_asked(device, key, peer_rank);
  if (context == NULL)
    return gli_shrink_is_to_come(device, key) ? GLI_PAIR_LATER : NULL;
  if (context->shrink != NULL &&
      context->shrink->members.phase == GLI_MEMBER_LEFT_OUT)
    return NULL; /* the agreement has ended for this rank */
  bool known = context->contacts[peer_rank].address.bytes > 0;
  if (context->peers[peer_rank].link == NULL && !known) return GLI_PAIR_LATER;
  if (gli_heartbeat_gave_up(context, peer_rank)) return GLI_PAIR_LATER;
  gloo_error error;
  gli_link *link = gli_context_link(context, peer_rank, &error);
  if (link == NULL) {
    gli_log(GLOO_LOG_WARN, "refused rank %u: %s", peer_rank, error.message);
    return NULL;
  }
  /* A late peer receives the same ABORT as the others. */
  if (gli_context_poisoned(context)) {
    context->teardown_pending = true;
    device->teardowns_pending = 1;
  }
  return link->leaving.said_bye || link->failed ? NULL : link->pair;
}

const gli_upcalls gli_engine_upcalls = {
    .header = engine_on_header,
    .received = engine_on_received,
    .message = engine_on_message,
    .sent = engine_on_sent,
    .rma_done = engine_on_rma_done,
    .failed = engine_on_failed,
    .accept = engine_on_accept,
    .expect = engine_on_expect,
};
