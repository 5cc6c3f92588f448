/* Messages of two processes on the Unix socket of a pair, with their
 * descriptors. Packets keep their boundaries, so that one is read whole or not
 * at all. Linux only. */
#ifndef GLI_TRANSPORT_SHM_NOTE_H
#define GLI_TRANSPORT_SHM_NOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "security/trust.h"

#define GLI_SHM_VERSION 11

typedef enum gli_shm_say {
  GLI_SHM_HELLO = 1, /* let us be a pair; with GLI_SHM_FDS descriptors */
  GLI_SHM_ACCEPTED,  /* yes; with descriptors as well */
  GLI_SHM_CONFIRMED, /* I have mapped yours: from now on we are a pair */
  GLI_SHM_DECLINED,  /* I cannot: no memory or descriptors are left */
  GLI_SHM_USE_MINE,  /* my own hello is on its way to you: wait for it */
  GLI_SHM_UNKNOWN,   /* no such key and rank here */
  GLI_SHM_LATER,     /* not yet, but soon: ask again */
  GLI_SHM_TAKEN,     /* we are a pair already */
  GLI_SHM_OTHER_VERSION,
  GLI_SHM_DENIED, /* your tag is wrong; or one of us has a secret, and the other
                     none */
  GLI_SHM_REGION, /* memory that rkeys name; with a descriptor */
  GLI_SHM_FORGET, /* it is freed; its number may come back */
  GLI_SHM_RING,   /* wake up: something has changed in shared memory */
  GLI_SHM_SAYS
} gli_shm_say;

/* Descriptors of a HELLO and an ACCEPTED: what they are for. That of a REGION
 * is the first. */
enum { GLI_SHM_FD_RING, GLI_SHM_FD_PAGE, GLI_SHM_FDS };

typedef struct gli_shm_note {
  uint32_t version;
  uint32_t say;      /* gli_shm_say */
  uint32_t from, to; /* ranks */
  uint64_t key;      /* HELLO, ACCEPTED: what the receiver of it expects */
  uint32_t data_bytes, chunk; /* of the ring that comes with it */
  uint32_t why;               /* DECLINED: errno, 0: not known */
  uint32_t reads; /* ACCEPTED, CONFIRMED: 1: I can read your memory */
  /* HELLO, ACCEPTED: the address and value of a random number of the sender, by
   * which the receiver tests whether it can read that memory. */
  uint64_t proof_at, proof;
  uint32_t region; /* REGION, FORGET: its number, and its size */
  uint64_t region_bytes;
  /* HELLO, ACCEPTED, DENIED: 1: the sender has a secret. The first two then
   * have a tag, which shows that, see gli_shm_note_sign. */
  uint32_t asks;
  uint8_t tag[GLI_TAG_BYTES];
  int fds[GLI_SHM_FDS]; /* -1: none; in a received note ours to close */
} gli_shm_note;

typedef enum gli_shm_received {
  GLI_SHM_GOT_NOTE,
  GLI_SHM_GOT_NOTHING, /* not yet */
  GLI_SHM_GOT_END,     /* the peer has closed */
  GLI_SHM_GOT_GARBAGE
} gli_shm_received;

/* Adds the proof that the sender knows the job's secret to a HELLO or an
 * ACCEPTED. The transcript is the two ranks, without nonces: the kernel has
 * authenticated the user of the sender, and no other process can read the
 * socket. */
gloo_status gli_shm_note_sign(const gli_key *key, gli_shm_note *note,
                              gloo_error *error);
/* Returns true if a note of rank `from` to rank `to` has the right proof. */
bool gli_shm_note_is_signed(const gli_key *key, uint32_t from, uint32_t to,
                            const gli_shm_note *note);

/* 0, or errno. */
int gli_shm_note_send(int socket, const gli_shm_note *note);
/* Say RING. Never blocks, whatever the peer does to its end of the socket. */
void gli_shm_note_ring(int socket);
gli_shm_received gli_shm_note_receive(int socket, gli_shm_note *note);
void gli_shm_note_close(gli_shm_note *note);

#endif
