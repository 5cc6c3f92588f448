/* Protection domains and registered memory. */
#include <errno.h>
#include <stdlib.h>

#include "standin.h"

static bool pd_is_used(const struct ibv_pd *pd) {
  const standin_object *o = standin_first[STANDIN_MR];
  while (o != NULL && ((struct ibv_mr *)o->self)->pd != pd) o = o->next;
  if (o != NULL) return true;
  o = standin_first[STANDIN_QP];
  while (o != NULL && ((struct ibv_qp *)o->self)->pd != pd) o = o->next;
  if (o != NULL) return true;
  o = standin_first[STANDIN_SRQ];
  while (o != NULL && ((struct ibv_srq *)o->self)->pd != pd) o = o->next;
  return o != NULL;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context) {
  int code = standin_enter(STANDIN_alloc_pd);
  standin_check(STANDIN_CONTEXT, context, "ibv_alloc_pd");
  if (code == 0 && ((standin_context *)context)->dead) code = EIO;
  standin_pd *pd = code == 0 ? calloc(1, sizeof *pd) : NULL;
  if (pd != NULL) {
    pd->base.context = context;
    standin_add(&pd->object, STANDIN_PD, &pd->base, context);
  }
  standin_leave();
  errno = code;
  return pd != NULL ? &pd->base : NULL;
}

int ibv_dealloc_pd(struct ibv_pd *pd) {
  int code = standin_enter(STANDIN_dealloc_pd);
  standin_check(STANDIN_PD, pd, "ibv_dealloc_pd");
  if (code == 0 && pd_is_used(pd)) code = EBUSY;
  if (code == 0) {
    standin_remove(STANDIN_PD, pd);
    free(pd);
  }
  standin_leave();
  return code;
}

/* ---- locked memory ------------------------------------------------------- */

static size_t locked_most;

bool standin_locks(struct ibv_context *base, size_t bytes) {
  const char *text = getenv("STANDIN_MEMLOCK");
  standin_context *context = (standin_context *)base;
  if (text != NULL && context->locked + bytes > strtoul(text, NULL, 10))
    return false;
  context->locked += bytes;
  if (context->locked > locked_most) locked_most = context->locked;
  return true;
}

void standin_unlocks(struct ibv_context *context, size_t bytes) {
  ((standin_context *)context)->locked -= bytes;
}

__attribute__((visibility("default"))) size_t standin_locked(void) {
  pthread_mutex_lock(&standin_lock);
  size_t most = locked_most;
  pthread_mutex_unlock(&standin_lock);
  return most;
}

/* Returns a key that was not used recently. */
static uint32_t next_key(void) {
  static uint32_t key = 0x1000;
  return key += 1 + standin_random(0x100);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *memory, size_t bytes,
                          int access) {
  standin_reg_waits();
  int code = standin_enter(STANDIN_reg_mr);
  standin_check(STANDIN_PD, pd, "ibv_reg_mr");
  if (code == 0 && ((standin_context *)pd->context)->dead) code = EIO;
  bool writes =
      (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  if (code == 0 &&
      (bytes == 0 || (writes && (access & IBV_ACCESS_LOCAL_WRITE) == 0)))
    code = EINVAL;
  if (code == 0 && !standin_locks(pd->context, bytes)) code = ENOMEM;
  standin_mr *mr = code == 0 ? calloc(1, sizeof *mr) : NULL;
  if (mr != NULL) {
    mr->base = (struct ibv_mr){.context = pd->context,
                               .pd = pd,
                               .addr = memory,
                               .length = bytes,
                               .lkey = next_key(),
                               .rkey = next_key()};
    mr->access = access;
    if (bytes > standin_port_of(pd->context)->deny)
      mr->access &= ~(int)IBV_ACCESS_REMOTE_READ;
    standin_add(&mr->object, STANDIN_MR, &mr->base, pd->context);
  }
  standin_leave();
  errno = code;
  return mr != NULL ? &mr->base : NULL;
}

/* A device keeps memory that was not deregistered, but the caller may have
 * unmapped it since. */
int ibv_dereg_mr(struct ibv_mr *mr) {
  int code = standin_enter(STANDIN_dereg_mr);
  standin_check(STANDIN_MR, mr, "ibv_dereg_mr");
  if (code == 0) {
    standin_unlocks(mr->context, mr->length);
    standin_remove(STANDIN_MR, mr);
    free(mr);
  } else {
    ((standin_mr *)mr)->orphan = true;
  }
  standin_leave();
  return code;
}

/* Computes with 64 bits, without overflow. */
static bool lies_within(const struct ibv_mr *mr, uint64_t address,
                        size_t bytes) {
  uint64_t base = (uintptr_t)mr->addr;
  return address >= base && bytes <= mr->length &&
         address - base <= mr->length - bytes;
}

standin_mr *standin_find_mr(const struct ibv_pd *pd, uint32_t key,
                            uint64_t address, size_t bytes, int access) {
  bool remote =
      (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)) != 0;
  for (standin_object *o = standin_first[STANDIN_MR]; o != NULL; o = o->next) {
    standin_mr *mr = o->self;
    if (mr->base.pd != pd || (remote ? mr->base.rkey : mr->base.lkey) != key)
      continue;
    return (mr->access & access) == access &&
                   lies_within(&mr->base, address, bytes)
               ? mr
               : NULL;
  }
  return NULL;
}
