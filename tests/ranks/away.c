#include "away.h"

#include <stdbool.h>

static const uint64_t patience_ns = 20000000000;

void away_begin(away *a) {
  a->got = 0;
  assert_int_equal(uv_mutex_init(&a->lock), 0);
  assert_int_equal(uv_cond_init(&a->changed), 0);
}

void away_end(away *a) {
  uv_cond_destroy(&a->changed);
  uv_mutex_destroy(&a->lock);
}

void away_tell(rank_env *env) {
  away *a = env->user;
  uv_mutex_lock(&a->lock);
  a->got++;
  uv_cond_broadcast(&a->changed);
  uv_mutex_unlock(&a->lock);
}

void away_until(rank_env *env, int n) {
  away *a = env->user;
  int timed_out = 0;
  uv_mutex_lock(&a->lock);
  while (a->got < n && !timed_out) {
    timed_out = uv_cond_timedwait(&a->changed, &a->lock, patience_ns);
  }
  bool all = a->got >= n;
  uv_mutex_unlock(&a->lock);
  if (!all) {
    rank_fail(env, __FILE__, __LINE__, "what it sent stays with it");
  }
}
