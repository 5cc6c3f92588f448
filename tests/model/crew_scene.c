/* Threads act as gli_device_wait (engine/wait.c) does: with the engine's lock
 * held they poll and wake the others if something was completed; if nothing was
 * done they sleep without the lock. */
#include "crew_scene.h"

#include "kinds.h"
#include "model.h"

enum { ENGINE_LOCK = 0 };

typedef struct member {
  process *shared; /* first */
  int me;
  int polls; /* polls left if the thread only polls */
  phase phase;
} member;

static const crew_script *script;
static member members[2];
static process peer;

/* Returns true if the messages that came meanwhile end a thread's wait. */
static bool completes(int before, int now) {
  bool any = false;
  for (int i = 0; i < 2; i++)
    any = any || (before < script->waits[i] && now >= script->waits[i]);
  return any;
}

static void poll_once(member *m, process *p) {
  p->host.t.polls = 0;
  if (m->polls-- > 0)
    atomic_store(&p->host.t.look, true); /* as if the look were due */
  int got = p->got;
  int events = gli_shm_poll(&p->host.t.peers.base);
  if (completes(got, p->got) && p->waiters > 0)
    gli_shm_wake(&p->host.t.peers.base);
  if (events == 0) m->phase = SLEEPING;
}

static bool crew_turn(void *self) {
  member *m = self;
  process *p = m->shared;
  bool more = true;
  switch (m->phase) {
    case POSTING:
      model_lock(ENGINE_LOCK);
      for (int i = 0; i < script->posts[m->me]; i++) process_post(p);
      more = script->waits[m->me] != 0;
      model_unlock(ENGINE_LOCK);
      m->phase = POLLING;
      break;
    case POLLING:
      model_lock(ENGINE_LOCK);
      more = p->got < script->waits[m->me];
      if (more || m->polls > 0) poll_once(m, p);
      more = p->got < script->waits[m->me];
      if (more && m->phase == SLEEPING) p->waiters++;
      if (m->polls > 0) m->phase = POLLING;
      more = more || m->polls > 0;
      model_unlock(ENGINE_LOCK);
      break;
    case SLEEPING:
      gli_shm_sleep(&p->host.t.peers.base, -1);
      model_lock(ENGINE_LOCK);
      p->waiters--;
      model_unlock(ENGINE_LOCK);
      m->phase = POLLING;
      break;
  }
  return more;
}

static void name_atomics(process *p) {
  gli_shm *t = &p->host.t;
  gli_shm_pair *pair = &p->host.pair;
  model_atomic(&t->peers.sleepers, 4, "sleepers", KIND_SLEEPERS);
  model_atomic(&t->wakes, 4, "wakes", KIND_OTHER);
  model_atomic(&t->peers.needs_poll, 1, "needs_poll", KIND_OTHER);
  model_atomic(&t->look, 1, "look", KIND_OTHER);
  model_atomic(&t->oversubscribed, 1, "oversubscribed", KIND_OTHER);
  model_atomic(&t->peers.next_due_ns, 8, "next_due_ns", KIND_OTHER);
  model_owned(&pair->waiting, 1, "waiting", KIND_OTHER);
  model_counter(&pair->in.next, 4, "next", KIND_OTHER);
  model_counter(&pair->out.slots_seen, 4, "slots_seen", KIND_OTHER);
  model_counter(&pair->out.bytes_seen, 8, "bytes_seen", KIND_OTHER);
  model_plain(p, offsetof(process, heap), "process");
}

void crew_scene_set_up(const crew_script *of) {
  static const char *const names[] = {"first", "second"};
  script = of;
  model_begin();
  process *p = model_alloc(sizeof *p);
  process *both[2] = {p, &peer};
  processes_set_up(&of->talk, both);
  name_atomics(p);
  for (int i = 0; i < 2; i++) {
    int polls = of->waits[i] < 0 ? -of->waits[i] : 0;
    members[i] = (member){p, i, polls, POSTING};
    model_thread(names[i], 0, crew_turn, &members[i], sizeof members[i]);
  }
  model_thread("peer", 1, process_turn, &peer, sizeof peer);
}
