/* Creation of devices and contexts, from a store and from the environment. */
#ifndef GLI_API_CREATE_H
#define GLI_API_CREATE_H

#include "gloo_c/context.h"
#include "rendezvous/join/bootstrap.h"
#include "security/trust.h"

/* Creates a device as gloo_device_create does. `towards` is the numeric address
 * of this host on the route to the rendezvous, which other ranks try first. A
 * loopback address means that all ranks are on this host, and no other address
 * is published. NULL or "": unknown. */
gloo_status gli_device_create_towards(const gloo_device_options *options,
                                      const char *towards, gloo_device **device,
                                      gloo_error *error);

/* Origin of a context: the job or the meeting that it starts from. */
typedef struct gli_origin {
  gli_trust_scope scope; /* scope of its ranks' records */
  /* The predecessor's key, inherited unless the options have a secret; NULL if
   * there is none. */
  const uint8_t *job_key;
} gli_origin;

/* A NULL `origin` binds records to the secret alone: the program provides the
 * store, and its ranks may belong to several jobs. `meeting` belongs to ranks
 * that start from the environment; NULL for others. Such ranks measure links by
 * default, and publish a failure after the meeting in the store. */
gloo_status gli_context_create(int rank, int size, gloo_store *store,
                               gloo_device *device,
                               const gloo_context_options *options,
                               const gli_origin *origin, gloo_context **out,
                               gli_meeting *meeting, gloo_error *error);

/* Publishes the cause of this rank's failure in the store. */
gloo_status gli_context_give_up(gli_meeting *meeting, gloo_store *store,
                                uint32_t rank, uint32_t size,
                                gloo_error *cause);

#endif
