/* The directory of a file store, and the files in it.
 *
 *   gloo-store  the marker: which job and epoch the directory belongs to
 *   lock        held (flock) by the thread that changes something
 *   temp        a file that is being written, by the holder of the lock
 *   k-NAME      the value of a key; d-NAME/k-NAME and so on for a long key
 *   wills/      what is to be set when a process is gone; see below
 *
 * NAME is the key with everything but a-z 0-9 . _ - as %xx, so that no key
 * leaves the directory and no two meet even where case does not matter; every
 * 200 characters of it a new component begins. A file is never changed once it
 * has its name, so that a reader sees an old value or a new one, never half. */
#ifndef GLI_RENDEZVOUS_STORE_FILE_STORE_H
#define GLI_RENDEZVOUS_STORE_FILE_STORE_H

#include <stdint.h>

#include "core/error.h"
#include "gloo_c/store.h"
#include "rendezvous/store/store.h"

typedef struct gli_file_dir {
  int fd;
  uint64_t deadline_ns; /* of what takes the lock; GLI_NEVER: half a minute */
  const char *path;     /* for messages; the owner's */
} gli_file_dir;

/* Make the directory if it is absent, check that it is ours, and mark it with
 * job and epoch or check its mark. Any number of processes at once. */
gloo_status gli_file_dir_open(const char *path, const char *job, uint64_t epoch,
                              gli_file_dir *dir, gloo_error *error);
void gli_file_dir_close(gli_file_dir *dir);

/* Shut out all other processes and threads. A holder that is killed lets go; if
 * one holds it for half a minute, or until the deadline, that is a
 * GLOO_ERR_TIMEOUT. */
gloo_status gli_file_lock(const gli_file_dir *dir, int *lock,
                          gloo_error *error);
void gli_file_unlock(int lock);

/* ---- files -------------------------------------------------------------- */

/* GLOO_ERR_NOT_FOUND (without a message) when the key has no file. */
gloo_status gli_file_exists(const gli_file_dir *dir, const char *key,
                            gloo_error *error);
gloo_status gli_file_read(const gli_file_dir *dir, const char *key,
                          gloo_value *value, gloo_error *error);

/* With the lock held. */
gloo_status gli_file_write(const gli_file_dir *dir, const char *key,
                           const void *data, size_t bytes, gloo_error *error);
gloo_status gli_file_remove(const gli_file_dir *dir, const char *key,
                            gloo_error *error);

/* Create `temp` with this content. -1 with errno on failure. Lock held. The
 * first leaves it open, and returns its descriptor. */
int gli_file_open_temp(const gli_file_dir *dir, const void *data, size_t bytes);
int gli_file_write_temp(const gli_file_dir *dir, const void *data,
                        size_t bytes);
/* All of an open file, up to `max_bytes`. -1 with errno on failure. */
int gli_file_read_all(int fd, size_t max_bytes, gloo_value *value);

#define GLI_FILE_TEMP "temp"

/* ---- wills -------------------------------------------------------------- */

/* A will (see gli_will) is a file wills/SYSTEM-RANDOM, locked (flock) as long
 * as the process lives that has left it. SYSTEM stands for the running system:
 * only processes of the same one look whether it is locked, for locks may not
 * reach from host to host. A child that was forked meanwhile keeps the lock,
 * too. */
typedef struct gli_file_will gli_file_will;

gloo_status gli_file_will_leave(const gli_file_dir *dir, const gli_will *left,
                                gli_file_will **result, gloo_error *error);
void gli_file_will_take_back(const gli_file_dir *dir, gli_file_will *will);
/* In a forked child. */
void gli_file_will_abandon(gli_file_will *will);

/* Look whether the processes are there that have left the `most` wills next to
 * this one, in the order of their names, and do what is in those of the others:
 * when each looks at the next, all are looked at. Returns how many wills there
 * are; what cannot be looked at is left for later. */
size_t gli_file_will_look(const gli_file_dir *dir, const gli_file_will *will,
                          size_t most);

#endif
