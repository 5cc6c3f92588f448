/* Messages of two processes, with descriptors, on the Unix socket of a pair. All
 * have one length, and each is read completely or not at all. */
#ifndef GLI_TRANSPORT_SHM_NOTE_H
#define GLI_TRANSPORT_SHM_NOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "security/trust.h"

#define GLI_SHM_VERSION 12

typedef enum gli_shm_say {
  GLI_SHM_HELLO = 1, /* requests a pair; carries GLI_SHM_FDS descriptors */
  GLI_SHM_ACCEPTED,  /* accepts; carries the same descriptors */
  GLI_SHM_CONFIRMED, /* the memory is mapped: the pair is connected */
  GLI_SHM_DECLINED,  /* refuses for lack of memory or descriptors */
  GLI_SHM_USE_MINE,  /* the sender's own HELLO is on its way: wait for it */
  GLI_SHM_UNKNOWN,   /* no such key and rank */
  GLI_SHM_LATER,     /* not ready yet: try again soon */
  GLI_SHM_TAKEN,     /* the pair is already connected */
  GLI_SHM_OTHER_VERSION,
  GLI_SHM_DENIED, /* wrong tag, or only one of the two ranks has a secret */
  GLI_SHM_REGION, /* announces memory that rkeys name; carries its descriptor */
  GLI_SHM_FORGET, /* the region is freed; its id may be reused */
  GLI_SHM_RING,   /* wakes the peer: shared memory has changed */
  GLI_SHM_SAYS
} gli_shm_say;

/* Descriptors of a HELLO and an ACCEPTED, by index. The descriptor of a REGION
 * is the first. */
enum { GLI_SHM_FD_RING, GLI_SHM_FD_PAGE, GLI_SHM_FDS };

typedef struct gli_shm_note {
  uint32_t version;
  uint32_t say;      /* gli_shm_say */
  uint32_t from, to; /* ranks */
  uint64_t key;      /* HELLO, ACCEPTED: key that the receiver expects */
  uint32_t data_bytes, chunk; /* HELLO, ACCEPTED: sizes of the ring */
  uint32_t why;               /* DECLINED: errno, or 0 if unknown */
  uint32_t reads; /* ACCEPTED, CONFIRMED: 1 if the sender reads your memory */
  /* HELLO, ACCEPTED: address and value of a random number of the sender, by
   * which the receiver tests whether it can read the sender's memory; 0 if it
   * need not. */
  uint64_t proof_at, proof;
  uint32_t region; /* REGION, FORGET: id and size of the region */
  uint64_t region_bytes;
  /* HELLO, ACCEPTED, DENIED: 1 if the sender has a secret. HELLO and ACCEPTED
   * then carry a tag that proves it, see gli_shm_note_sign. */
  uint32_t asks;
  uint8_t tag[GLI_TAG_BYTES];
  int fds[GLI_SHM_FDS]; /* -1 if none; the receiver closes them */
} gli_shm_note;

typedef enum gli_shm_received {
  GLI_SHM_GOT_NOTE,
  GLI_SHM_GOT_NOTHING, /* no note has arrived yet */
  GLI_SHM_GOT_END,     /* the peer has closed */
  GLI_SHM_GOT_GARBAGE,
  GLI_SHM_GOT_STRANGER /* the note is from a process of another user */
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

/* Sends a note. Returns 0 or errno. */
int gli_shm_note_send(int socket, const gli_shm_note *note);
/* Sends RING. Never blocks, whatever the peer does to its end of the socket. */
void gli_shm_note_ring(int socket);
gli_shm_received gli_shm_note_receive(int socket, gli_shm_note *note);
void gli_shm_note_close(gli_shm_note *note);

#endif
