/* Contexts and groups for src/api. */
#include <stdlib.h>
#include <string.h>

#include "core/environment.h"
#include "core/error.h"
#include "core/log.h"
#include "engine/contexts/contexts.h"
#include "engine/drive/drive.h"
#include "engine/engine.h"
#include "engine/failure/council.h"
#include "engine/failure/failure.h"
#include "engine/life/life.h"
#include "engine/state/fail.h"
#include "engine/wire/wire.h"

/* ---- contexts ------------------------------------------------------------ */

gloo_status gli_context_open(gloo_device *device, uint32_t rank, uint32_t size,
                             uint64_t key, const uint8_t *job_key,
                             int64_t timeout_ns, gloo_context **out,
                             gloo_error *error) {
  if (gli_forked(&device->birth))
    return gli_fork_refuse(&device->birth, "the device", error);
  gli_device_lock(device);
  gloo_context *context =
      gli_context_new_root(device, rank, size, key, job_key);
  if (context != NULL) context->timeout_ns = timeout_ns;
  gli_device_unlock(device);
  if (context != NULL) {
    *out = context;
    return GLOO_OK;
  }
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for a context of %u ranks", size);
}

void gli_context_set_peer(gloo_context *context, uint32_t rank,
                          const gli_address *address, uint64_t key,
                          bool beats) {
  gli_device_lock(context->device);
  context->contacts[rank] =
      (gli_contact){.address = *address, .key = key, .beats = beats};
  gli_device_unlock(context->device);
}

void gli_context_place(gloo_context *context, gli_hosts *hosts,
                       gli_subscription oversubscribed) {
  gli_device_lock(context->device);
  gli_context_set_hosts(context, hosts, oversubscribed);
  gli_context_learn_locality(context);
  /* A peer that knows the hosts already may have made groups. */
  for (gloo_context *g = context->family->groups; g != NULL; g = g->next) {
    g->oversubscribed = context->oversubscribed;
    g->maps = context->maps;
  }
  gli_device_unlock(context->device);
}

void gli_context_tune(gloo_context *context, gli_tuning *tuning) {
  gli_device_lock(context->device);
  gli_context_set_tuning(context, tuning);
  gli_device_unlock(context->device);
}

gloo_status gli_context_join_tree(gloo_context *context, gloo_error *error) {
  gloo_device *device = context->device;
  gloo_status status = GLOO_OK;
  gloo_error unread;
  if (error == NULL) error = &unread;
  gli_device_lock(device);
  /* The neighbours of a rank differ from it in one bit: its parent lacks its
   * lowest one, its children have one more below that. */
  for (uint32_t bit = 1; status == GLOO_OK && bit < context->size; bit <<= 1) {
    uint32_t other = context->rank ^ bit;
    if (other < context->size &&
        gli_context_link(context, other, error) == NULL) {
      status = error->status;
    }
    if (context->rank & bit) break;
  }
  gli_device_poll(device);
  gli_device_unlock(device);
  return status;
}

void gli_context_start_heartbeat(gloo_context *context, uint64_t limit_ns) {
  gloo_device *device = context->device;
  gli_device_lock(device);
  gli_heartbeat_start(context, limit_ns, device->helper.exists);
  if (device->helper.exists) gli_device_stir_helper(device);
  gli_device_unlock(device);
}

const char *gli_context_route(gloo_context *context, uint32_t peer,
                              char why[GLI_WHY_BYTES]) {
  const char *route = "its own memory";
  why[0] = '\0';
  if (peer == context->rank) return route;
  gloo_device *device = context->device;
  gli_device_lock(device);
  const gloo_context *root = context->family->root;
  const gli_link *link = root->peers[context->peers[peer].rank].link;
  route = device->ops->name;
  if (link == NULL || link->pair == NULL)
    route = NULL;
  else if (device->ops->route != NULL)
    route = device->ops->route(link->pair, why);
  gli_device_unlock(device);
  return route;
}

void gli_context_own_device(gloo_context *context) {
  gli_device_lock(context->device);
  context->owns_device = true;
  context->device->owners++;
  gli_device_unlock(context->device);
}

const uint8_t *gli_context_job_key(const gloo_context *context) {
  const gloo_context *root = context->family->root;
  return root->asks ? root->job_key : NULL;
}

void gli_context_share_device(const gloo_context *context, gloo_context *also) {
  if (context->family->root->owns_device) gli_context_own_device(also);
}

void gli_context_follow(gloo_context *from, gloo_context *to) {
  gli_context_share_device(from, to);
  gli_device_lock(to->device);
  gli_shrink_hand_over(from->family->root, to);
  gli_device_unlock(to->device);
}

void gli_context_have_met(gloo_context *context) {
  gli_device_lock(context->device);
  gli_heartbeat_met(context);
  gli_device_unlock(context->device);
}

gloo_device *gli_context_device(const gloo_context *context) {
  return context->device;
}

/* Returns true if the caller still holds another context of the family. */
static bool others_are_held(const gloo_context *context) {
  const gli_family *family = context->family;
  if (!family->orphaned && family->root != context) return true;
  const gloo_context *g = family->groups;
  while (g != NULL && (g == context || g->is_control || g->closing))
    g = g->next;
  return g != NULL;
}

static gloo_context *find_closing_group(const gli_family *family) {
  gloo_context *g = family->groups;
  while (g != NULL && !g->closing) g = g->next;
  return g;
}

/* Returns true if a destroyed group stays until its pending operations end:
 * while the caller holds a context of the family. */
static bool context_lingers(const gloo_context *context) {
  return gli_context_is_busy(context) && !gli_context_is_root(context) &&
         !gli_context_poisoned(context) && others_are_held(context);
}

/* Returns true if a running function is of a request that ends with the
 * context. */
static bool contexts_end_before(const gli_callback *callback,
                                const void *what) {
  const gloo_context *context = what;
  if (callback->context == NULL) return false;
  if (callback->mixed) return callback->device == context->device;
  if (callback->family != context->family) return false;
  return callback->context == context ||
         callback->context == context->control || !others_are_held(context);
}

/* Ends a context, and the groups that linger if the caller holds no other
 * context of the family. */
static bool end_contexts(gloo_context *context) {
  gli_family *family = context->family;
  gloo_device *device = context->device;
  bool last = !others_are_held(context);
  bool ended = gli_context_end(context);
  while (last && !ended) {
    gloo_context *left = find_closing_group(family);
    if (left == NULL) break;
    device->closings--;
    ended = gli_context_end(left);
  }
  return ended;
}

static bool any_busy(const gloo_context *context) {
  if (gli_context_is_busy(context)) return true;
  return !others_are_held(context) &&
         find_closing_group(context->family) != NULL;
}

/* Cancels pending operations and calls their completion functions. */
static void contexts_cancel(gloo_context *context) {
  if (any_busy(context)) {
    gloo_error cause;
    gli_fail(&cause, GLOO_ERR_CANCELLED, (int)context->root_rank,
             "rank %u destroyed its context while operations were in progress",
             context->root_rank);
    gli_context_poison(context, &cause);
  }
  gli_device_settle(context->device);
  gli_device_notify_all(context->device);
}

/* Waits for a running function. Returns true if the context must be cancelled
 * again: a function has run, or operations have begun since. */
static bool contexts_wait_or_cancel_again(gloo_context *context) {
  if (gli_device_await_return(context->device, contexts_end_before, context))
    return true;
  return gli_context_is_busy(context) && !gli_context_poisoned(context) &&
         !context_lingers(context);
}

void gli_context_close(gloo_context *context) {
  gloo_device *device = context->device;
  bool owns_device = context->family->root->owns_device;
  gli_device_lock(device);
  if (device->fork.torn) {
    gli_device_unlock(device);
    return;
  }
  do {
    if (!context_lingers(context)) contexts_cancel(context);
  } while (contexts_wait_or_cancel_again(context));
  if (context_lingers(context)) {
    context->closing = true;
    device->closings++;
    gli_context_will_tell(context);
    gli_device_kick_locked(device);
    gli_device_unlock(device);
    return;
  }
  bool ended = end_contexts(context);
  if (device->contexts == NULL && device->helper.exists)
    gli_device_stir_helper(device); /* for ranks that connect too late */
  bool last = ended && owns_device && --device->owners == 0;
  gli_device_unlock(device);
  if (last) {
    gli_device_close(device);
  } else {
    gli_device_kick(device);
  }
}

/* ---- groups -------------------------------------------------------------- */

gloo_status gli_group_begin(gloo_context *parent, gloo_context **out,
                            gloo_error *error) {
  gloo_device *device = parent->device;
  gli_device_lock(device);
  gloo_context *group = gli_group_new(parent, error);
  gli_device_unlock(device);
  if (group == NULL) return error->status;
  *out = group;
  return GLOO_OK;
}

gloo_status gli_context_control(gloo_context *context, gloo_context **control,
                                gloo_error *error) {
  gli_device_lock(context->device);
  *control = gli_group_control(context, error);
  gli_device_unlock(context->device);
  return *control != NULL ? GLOO_OK : error->status;
}

gloo_status gli_group_form(gloo_context *group, const gloo_context *parent,
                           const gli_member *members, uint32_t n, uint32_t own,
                           int64_t timeout_ns, gloo_error *error) {
  gloo_device *device = group->device;
  gli_device_lock(device);
  if (timeout_ns != 0) group->timeout_ns = timeout_ns;
  gloo_status status =
      gli_group_set_members(group, parent, members, n, own, error);
  if (status != GLOO_OK) gli_context_poison(group, error);
  gli_device_settle(device);
  gli_device_unlock(device);
  return status;
}

/* ---- failures ------------------------------------------------------------ */

gloo_status gli_context_fail(gloo_context *context, const gloo_error *cause) {
  gloo_device *device = context->device;
  gloo_error told = *cause;
  told.rank = told.root_rank;
  gli_device_lock(device);
  gli_context_poison(context, &told);
  gli_device_settle(device);
  gli_device_unlock(device);
  return cause->status;
}

gloo_status gli_context_usable(const gloo_context *context, gloo_error *error) {
  gli_device_lock(context->device);
  gloo_status status = GLOO_OK;
  if (gli_context_poisoned(context)) {
    status = gli_context_unusable(context, error);
    if (error != NULL) gli_context_localize(context, error);
  }
  gli_device_unlock(context->device);
  return status;
}

gloo_status gli_context_refuse(gloo_context *context, const gloo_error *error) {
  gli_log(GLOO_LOG_INFO, "refused a call: %s", error->message);
  gli_device_lock(context->device);
  gli_context_note_refused(context, error);
  gli_device_unlock(context->device);
  return error->status;
}

/* ---- public -------------------------------------------------------------- */

int gloo_context_rank(const gloo_context *context) {
  return context != NULL ? (int)context->rank : -1;
}

int gloo_context_size(const gloo_context *context) {
  return context != NULL ? (int)context->size : -1;
}

gloo_device *gloo_context_device(const gloo_context *context) {
  return context != NULL ? context->device : NULL;
}

gloo_status gloo_context_abort(gloo_context *context, const char *reason,
                               gloo_error *error) {
  if (context == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "gloo_context_abort: the context is NULL");
  if (gli_custom_op_inside())
    return gli_custom_op_refuse("gloo_context_abort", error);
  gloo_status status = gli_context_usable(context, error);
  if (status == GLOO_ERR_FORKED) return status;
  gloo_error cause;
  gli_context_describe_abort(context, reason, &cause);
  (void)gli_context_fail(context, &cause);
  return GLOO_OK;
}

void gloo_context_abort_async(gloo_context *context, const char *reason) {
  const char *none = NULL;
  if (context == NULL) return;
  (void)atomic_compare_exchange_strong(&context->family->root->gives_up, &none,
                                       reason != NULL ? reason : "");
}

gloo_status gloo_context_set_timeout(gloo_context *context, int64_t timeout_ns,
                                     gloo_error *error) {
  if (context == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "gloo_context_set_timeout: the context is NULL");
  if (gli_custom_op_inside())
    return gli_custom_op_refuse("gloo_context_set_timeout", error);
  gloo_status status =
      gli_timeout_of_operations(timeout_ns, &timeout_ns, error);
  if (status != GLOO_OK) return status;
  gli_device_lock(context->device);
  context->timeout_ns = timeout_ns;
  gli_repeat_set_timeout(context);
  gli_device_unlock(context->device);
  return GLOO_OK;
}

int gloo_context_hosts(const gloo_context *context) {
  if (context == NULL) return -1;
  return context->hosts != NULL ? (int)context->hosts->n : 1;
}

int gloo_context_host(const gloo_context *context, int rank) {
  if (context == NULL || rank < 0 || rank >= (int)context->size) return -1;
  return context->hosts != NULL ? (int)context->hosts->of[rank] : 0;
}

gloo_status gloo_context_error(const gloo_context *context, gloo_error *error) {
  static const char name[] = "gloo_context_error";
  gloo_error unread;
  if (error == NULL) error = &unread;
  if (context == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: the context is NULL",
                    name);
  if (gli_custom_op_inside()) return gli_custom_op_refuse(name, error);
  gloo_device *device = context->device;
  /* The holder of the lock polls, or runs an operation of the caller. */
  if (gli_device_try_lock(device)) {
    gli_device_poll(device);
    gli_device_check_deadlines(device);
    gli_device_notify(device);
    gli_device_unlock(device);
  }
  gli_posted_get(&context->news, error);
  gli_context_localize(context, error);
  return error->status;
}
