/* Waiting: the waiting thread makes the progress.
 *
 * With a core per rank it polls for about as long as it takes to wake a sleeper
 * on another core, with more ranks than cores not at all. Then it yields
 * between polls, and finally it sleeps. Yielding costs next to nothing when no
 * other thread wants the core, and hands it to the peer when the peer needs it.
 * The time to yield is learnt: if the event comes soon after the thread fell
 * asleep, sleeping was wrong, and the next wait yields for longer; after a long
 * sleep the time is short again. So ranks in step never sleep, and a rank that
 * waits for a late peer leaves its core. (Two ranks that sleep in turn would
 * also stay on one core: each wakes the other on its own core. Two that are
 * always ready to run get moved apart.)
 *
 * Ranks may share a core although there is one for each: other programs keep
 * the rest busy, or the ranks believe that they are on different hosts. Then a
 * rank that spins delays the peer that it waits for, and a yield brings at once
 * what spinning did not. The thread detects that, and does not spin as long as
 * it lasts. If another core is idle, the ranks share theirs for no good reason:
 * the system put them together when one woke the other, and may leave them so
 * for a tenth of a second. A thread that naps is put on an idle core at once,
 * so that is tried as well, at growing intervals. */
#include <string.h>

#include "core/cpu.h"
#include "core/environment.h"
#include "core/error.h"
#include "core/hints.h"
#include "engine/drive/drive.h"
#include "engine/run/in_order.h"
#include "engine/state/deadline.h"

#define SPIN_NS UINT64_C(40000)
#define FIRST_LOOKS 100
#define POLLS_PER_CLOCK 64 /* reading the clock costs as much as a poll */
/* The processor's counter, which dates the end of operations, costs less. */
#define LOOKS_PER_TICKS 8
#define YIELD_MIN_NS UINT64_C(60000)
#define YIELD_MAX_NS UINT64_C(4000000)
#define SHORT_SLEEP_NS UINT64_C(400000)
#define LONG_SLEEP_NS UINT64_C(2000000)
#define LONGEST_SLEEP_NS INT64_C(100000000)
/* The polling interval for copies of GPU memory, whose end wakes no thread. */
#define COPIES_SLEEP_NS INT64_C(200000)
/* The durations that classify a yield. A shorter one than ALONE_NS let no other
 * thread run. A longer one than HOG_NS let a thread run that has its own work,
 * to which the core should not be given away. */
#define ALONE_NS UINT64_C(1000)
#define HOG_NS UINT64_C(1000000)
/* Evidence of sharing the core: the weight of one sign, and the sum from which
 * it is believed. A yield that finds the core idle subtracts 1. */
enum { SHARING_SIGN = 8, SHARING_BELIEVED = 9, SHARING_MAX = 16 };

#define NAP_PERIOD_MIN_NS UINT64_C(2000000)
#define NAP_PERIOD_MAX_NS UINT64_C(1000000000)

gloo_status gli_device_read_wait_mode(gloo_device *device, gloo_error *error) {
  static const char *const names[] = {"adapt", "spin", "yield", "sleep"};
  const char *value = gli_environment_read("GLOO_WAIT");
  device->wait.mode = GLI_WAIT_ADAPT;
  device->wait.yield_ns = YIELD_MIN_NS;
  if (value == NULL) return GLOO_OK;
  for (int i = 0; i < 4; i++) {
    if (strcmp(value, names[i]) != 0) continue;
    device->wait.mode = (gli_wait_mode)i;
    return GLOO_OK;
  }
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "GLOO_WAIT is \"%s\"; it must be adapt, spin, yield or sleep",
                  value);
}

const char *gli_device_wait_policy(const gloo_device *device) {
  switch (device->wait.mode) {
    case GLI_WAIT_SPIN:
      return "spin (GLOO_WAIT)";
    case GLI_WAIT_YIELD:
      return "yield (GLOO_WAIT)";
    case GLI_WAIT_SLEEP:
      return "sleep (GLOO_WAIT)";
    case GLI_WAIT_ADAPT:
      break;
  }
  return atomic_load(&device->oversubscribed)
             ? "yield, then sleep"
             : "spin briefly, yield, then sleep";
}

void gli_device_offer_lock(gloo_device *device) {
  device->wait.ticks = 0;
  gli_device_unlock(device);
  for (int i = 0; i < 64; i++) {
    gli_cpu_yield();
    if (atomic_load(&device->lock_wanted) == 0) break;
  }
  gli_device_lock(device);
}

void gli_device_sleep(gloo_device *device, int64_t limit_ns) {
  if (device->deferred != NULL)
    return; /* started by a thread that had the lock since the last poll */
  size_t completed = device->completed;
  int64_t timeout_ns = gli_device_check_deadlines(device);
  if (device->completed != completed) return;
  if (timeout_ns > LONGEST_SLEEP_NS) timeout_ns = LONGEST_SLEEP_NS;
  if (device->staged != NULL && timeout_ns > COPIES_SLEEP_NS)
    timeout_ns = COPIES_SLEEP_NS;
  if (timeout_ns > limit_ns) timeout_ns = limit_ns;
  device->wait.sleepers++;
  device->wait.ticks = 0;
  gli_device_unlock(device);
  device->ops->sleep(device->transport, timeout_ns);
  gli_device_lock(device);
  device->wait.sleepers--;
  if (device->wait.to_wake > 0) device->wait.to_wake--;
}

void gli_device_wake_sleepers(gloo_device *device) {
  if (device->wait.sleepers == 0) return;
  device->wait.to_wake = device->wait.sleepers;
  device->ops->wake(device->transport);
}

static uint64_t spin_ns(gloo_device *device) {
  if (device->wait.sharing >= SHARING_BELIEVED) return 0;
  bool oversubscribed =
      atomic_load_explicit(&device->oversubscribed, memory_order_relaxed);
  return oversubscribed ? 0 : SPIN_NS;
}

/* Polls for an operation that is in no list yet, since the awaited message is
 * usually on its way and nothing has to be undone then. Does not poll where a
 * spinning thread would delay the message, or other operations are pending.
 * Returns true if the operation has ended. */
static bool ends_unlisted(gloo_device *device, gli_operation *op) {
  if (device->outstanding > 1 || device->wait.mode > GLI_WAIT_SPIN)
    return false;
  if (spin_ns(device) == 0) return false;
  device->wait.ticks = op->started;
  for (unsigned looks = FIRST_LOOKS; looks > 0; looks--) {
    if (!gli_in_order_looks(op) || !gli_device_may_skip_poll(device)) break;
    gli_cpu_relax();
    if (looks % LOOKS_PER_TICKS == 0) device->wait.ticks = gli_ticks();
    (void)gli_in_order_look(op);
  }
  device->wait.ticks = 0;
  if (!gli_operation_is(op, GLI_OPERATION_DONE)) return false;
  gli_device_settle(device);
  return true;
}

/* Judges the first yield of a wait by its duration and by the events that
 * followed. */
static void judge_yield(gloo_device *device, uint64_t took_ns, int events) {
  if (took_ns > HOG_NS) {
    device->wait.sharing = 0;
  } else if (took_ns < ALONE_NS) {
    if (device->wait.sharing > 0) device->wait.sharing--;
  } else if (events > 0) {
    device->wait.sharing += SHARING_SIGN;
    if (device->wait.sharing > SHARING_MAX) device->wait.sharing = SHARING_MAX;
  }
}

/* Returns the mode of the next pause, `idle_ns` after the last event. */
static gli_wait_mode next_pause(gloo_device *device, uint64_t idle_ns) {
  if (device->wait.mode != GLI_WAIT_ADAPT) return device->wait.mode;
  uint64_t spin = spin_ns(device);
  if (idle_ns < spin) return GLI_WAIT_SPIN;
  return idle_ns - spin < device->wait.yield_ns ? GLI_WAIT_YIELD
                                                : GLI_WAIT_SLEEP;
}

/* Adapts the time to yield after a sleep: shorter after a long sleep, longer
 * after a short sleep that ended with an event. */
static void learn_sharing(gloo_device *device, uint64_t slept_ns, int events) {
  if (slept_ns > LONG_SLEEP_NS) {
    device->wait.yield_ns = YIELD_MIN_NS;
  } else if (events > 0 && slept_ns < SHORT_SLEEP_NS) {
    uint64_t longer_ns = 2 * device->wait.yield_ns;
    device->wait.yield_ns = longer_ns < YIELD_MAX_NS ? longer_ns : YIELD_MAX_NS;
  }
}

static void let_others_run(gloo_device *device) {
  device->wait.ticks = 0;
  gli_device_unlock(device);
  gli_cpu_yield();
  gli_device_lock(device);
}

static bool may_nap(gloo_device *device, uint64_t now_ns) {
  if (device->wait.mode != GLI_WAIT_ADAPT || now_ns < device->wait.nap_ns)
    return false;
  if (device->wait.sharing < SHARING_BELIEVED ||
      atomic_load(&device->oversubscribed))
    return false;
  uint64_t period_ns = 2 * device->wait.nap_period_ns;
  if (period_ns < NAP_PERIOD_MIN_NS) period_ns = NAP_PERIOD_MIN_NS;
  if (period_ns > NAP_PERIOD_MAX_NS) period_ns = NAP_PERIOD_MAX_NS;
  device->wait.nap_period_ns = period_ns;
  device->wait.nap_ns = now_ns + period_ns;
  return true;
}

static void take_nap(gloo_device *device) {
  device->wait.ticks = 0;
  gli_device_unlock(device);
  gli_cpu_nap();
  gli_device_lock(device);
}

/* Returns true if other threads are known to want the core. The first yield
 * since the last event then needs no clock, because most yields bring the
 * event. */
static bool yields_at_once(const gloo_device *device) {
  return device->wait.mode == GLI_WAIT_ADAPT &&
         atomic_load_explicit(&device->oversubscribed, memory_order_relaxed);
}

/* The object of a wait: one operation, a flag, or one of several requests. */
typedef struct awaited {
  gli_operation *op;
  const bool *flag;
  gli_operation *const *heads;
  size_t n;
  uint64_t until_ns; /* UINT64_MAX for no limit */
} awaited;

GLI_INLINE bool is_over(const awaited *a) {
  if (a->op != NULL) return gli_operation_is(a->op, GLI_OPERATION_DONE);
  if (a->flag != NULL) return *a->flag;
  for (size_t i = 0; i < a->n; i++) {
    if (a->heads[i] != NULL && !gli_operation_any_running(a->heads[i]))
      return true;
  }
  return false;
}

/* Starts the clock of the operation, before this thread checks due timers. */
GLI_INLINE void start_clock(const awaited *a) {
  if (a->op != NULL && gli_operation_is_running(a->op))
    gli_deadline_start(a->op);
}

static int64_t wait_limit(uint64_t until_ns, uint64_t now_ns) {
  uint64_t left_ns = until_ns - now_ns;
  return left_ns > INT64_MAX ? INT64_MAX : (int64_t)left_ns;
}

GLI_INLINE void wait_for(gloo_device *device, const awaited *a) {
  const gli_transport_ops *ops = device->ops;
  /* The number of idle polls in a row, the time of the first poll that read the
   * clock, and the time at which the thread fell asleep (0: it did not). */
  unsigned idle = 0;
  bool may_spin = device->wait.mode == GLI_WAIT_ADAPT && spin_ns(device) > 0;
  bool spins = may_spin, at_once = yields_at_once(device);
  uint64_t idle_ns = 0, asleep_ns = 0;
  /* Duration of the first yield since the last event, until it is judged. */
  uint64_t yield_ns = 0;
  bool yielded = false;
  device->wait.waiters++;
  for (unsigned polls = 1; !is_over(a); polls++) {
    int events = a->op != NULL ? gli_device_progress_for(device, a->op)
                               : gli_device_poll(device);
    if (yield_ns > 0) {
      judge_yield(device, yield_ns, events);
      yield_ns = 0;
    }
    if (polls % 256 == 0) {
      start_clock(a);
      gli_device_check_deadlines(device);
      /* Events of other operations must not keep this thread beyond its
       * deadline. */
      if (a->until_ns != UINT64_MAX &&
          ops->now_ns(device->transport) >= a->until_ns)
        break;
    }
    gli_device_notify(device);
    if (is_over(a) && asleep_ns == 0) break;
    if (atomic_load_explicit(&device->lock_wanted, memory_order_relaxed) > 0) {
      gli_device_offer_lock(device);
    }
    /* The thread that borrowed the lock may have completed the operation. */
    if (is_over(a) && asleep_ns == 0) break;
    if (events > 0 && asleep_ns == 0) {
      device->wait.ticks = 0;
      idle = 0;
      idle_ns = 0;
      spins = may_spin;
      yielded = false;
      continue;
    }
    if (spins && asleep_ns == 0 && ++idle % POLLS_PER_CLOCK != 0) {
      gli_cpu_relax();
      if (idle % LOOKS_PER_TICKS == 0) device->wait.ticks = gli_ticks();
      continue;
    }
    if (at_once && !yielded && asleep_ns == 0) {
      yielded = true;
      let_others_run(device);
      continue;
    }
    uint64_t now_ns = ops->now_ns(device->transport);
    if (now_ns >= a->until_ns) break;
    if (asleep_ns > 0) {
      learn_sharing(device, now_ns - asleep_ns, events);
      asleep_ns = idle_ns = 0;
      spins = may_spin;
      continue;
    }
    if (idle_ns == 0) idle_ns = now_ns;
    gli_wait_mode pause = next_pause(device, now_ns - idle_ns);
    spins = spins && pause == GLI_WAIT_SPIN;
    switch (pause) {
      case GLI_WAIT_YIELD:
        if (may_nap(device, now_ns)) {
          take_nap(device);
          break;
        }
        let_others_run(device);
        if (!yielded) yield_ns = ops->now_ns(device->transport) - now_ns;
        yielded = true;
        break;
      case GLI_WAIT_SLEEP:
        asleep_ns = now_ns;
        start_clock(a);
        gli_device_sleep(device, wait_limit(a->until_ns, now_ns));
        break;
      case GLI_WAIT_SPIN:
      case GLI_WAIT_ADAPT:
        gli_cpu_relax();
        break;
    }
  }
  device->wait.waiters--;
  device->wait.ticks = 0;
  gli_device_notify(device);
  gli_device_kick_locked(device);
}

GLI_APART static void wait_for_one(gloo_device *device, gli_operation *op) {
  const awaited a = {.op = op, .until_ns = UINT64_MAX};
  wait_for(device, &a);
}

void gli_device_wait(gloo_device *device, gli_operation *op) {
  if (device->unlisted == op && ends_unlisted(device, op)) return;
  wait_for_one(device, op);
}

void gli_device_wait_flag(gloo_device *device, const bool *flag,
                          uint64_t until_ns) {
  const awaited a = {.flag = flag, .until_ns = until_ns};
  wait_for(device, &a);
}

void gli_device_wait_any(gloo_device *device, gli_operation *const *heads,
                         size_t n, int64_t timeout_ns) {
  awaited a = {.heads = heads, .n = n, .until_ns = UINT64_MAX};
  if (timeout_ns >= 0) {
    uint64_t now_ns = device->ops->now_ns(device->transport);
    a.until_ns = now_ns + (uint64_t)timeout_ns;
  }
  wait_for(device, &a);
}
