/* The handler that XLA calls for the operations of gloo_c.jax. */
#ifndef GLOO_C_XLA_HANDLER_H
#define GLOO_C_XLA_HANDLER_H

/* Attribute "call". python/gloo_c/jax/_operations.py has the same list. */
enum xla_call {
  XLA_CALL_ALLREDUCE,
  XLA_CALL_ALLGATHER,
  XLA_CALL_REDUCE_SCATTER,
  XLA_CALL_ALLTOALL,
  XLA_CALL_BROADCAST,
  XLA_CALL_SENDRECV,
  XLA_CALL_BARRIER
};

/* Returns the address of the handler, an XLA_FFI_Handler. */
void *xla_handler_address(void);

#endif
