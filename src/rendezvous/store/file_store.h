/* The directory of a file store, and its files.
 *
 *   gloo-store  the marker: job and epoch of the directory
 *   lock        locked (flock) by a thread that changes a file
 *   temp        the file that the lock's holder is writing
 *   k-NAME      the value of a key; d-NAME/k-NAME and so on for a long key
 *   wills/      the wills of processes; see below
 *
 * NAME is the key with all characters but a-z 0-9 . _ - as %xx. So no key
 * leaves the directory, and no two keys share a file even on a case-insensitive
 * file system. Each 200 characters of it a new component begins. A file never
 * changes once it has its name, so a reader gets an old value or a new one,
 * never a part. */
#ifndef GLI_RENDEZVOUS_STORE_FILE_STORE_H
#define GLI_RENDEZVOUS_STORE_FILE_STORE_H

#include <stdint.h>

#include "core/error.h"
#include "gloo_c/store.h"
#include "rendezvous/store/store.h"

typedef struct gli_file_dir {
  int fd;
  uint64_t deadline_ns; /* when to give up on the lock; GLI_NEVER: after 30 s */
  const char *path;     /* for messages; owned by the caller */
} gli_file_dir;

/* Creates the directory if it is absent, verifies its owner, and writes the
 * marker of job and epoch or compares it. Any number of processes may call it
 * at once. */
gloo_status gli_file_dir_open(const char *path, const char *job, uint64_t epoch,
                              gli_file_dir *dir, gloo_error *error);
void gli_file_dir_close(gli_file_dir *dir);

/* Excludes all other processes and threads. A holder that is killed releases
 * the lock. Returns GLOO_ERR_TIMEOUT if it is held for 30 s, or until the
 * deadline. */
gloo_status gli_file_lock(const gli_file_dir *dir, int *lock,
                          gloo_error *error);
void gli_file_unlock(int lock);

/* ---- files --------------------------------------------------------------- */

/* Return GLOO_ERR_NOT_FOUND, without a message, if the key has no file. */
gloo_status gli_file_exists(const gli_file_dir *dir, const char *key,
                            gloo_error *error);
gloo_status gli_file_read(const gli_file_dir *dir, const char *key,
                          gloo_value *value, gloo_error *error);

/* The lock must be held. */
gloo_status gli_file_write(const gli_file_dir *dir, const char *key,
                           const void *data, size_t bytes, gloo_error *error);
gloo_status gli_file_remove(const gli_file_dir *dir, const char *key,
                            gloo_error *error);

/* Create `temp` with this content, with the lock held. They return -1 with
 * errno on failure. The first keeps the file open and returns its descriptor.
 */
int gli_file_open_temp(const gli_file_dir *dir, const void *data, size_t bytes);
int gli_file_write_temp(const gli_file_dir *dir, const void *data,
                        size_t bytes);
/* Reads an open file, up to `max_bytes`. Returns -1 with errno on failure. */
int gli_file_read_all(int fd, size_t max_bytes, gloo_value *value);

#define GLI_FILE_TEMP "temp"

/* ---- wills --------------------------------------------------------------- */

/* A will (see gli_will) is a file wills/SYSTEM-RANDOM, locked (flock) while the
 * process that left it lives. SYSTEM identifies the running system: only its
 * processes test the lock, because locks may not work between hosts. A child
 * that is forked meanwhile keeps the lock, too. */
typedef struct gli_file_will gli_file_will;

gloo_status gli_file_will_leave(const gli_file_dir *dir, const gli_will *left,
                                gli_file_will **result, gloo_error *error);
void gli_file_will_take_back(const gli_file_dir *dir, gli_file_will *will);
/* Frees the will in a forked child. */
void gli_file_will_abandon(gli_file_will *will);

/* Tests the `most` wills that follow this one in the order of their names, and
 * executes those of processes that have ended. If each process tests the next
 * will, all are tested. Returns the number of wills. Wills that cannot be read
 * are skipped until the next time. */
size_t gli_file_will_look(const gli_file_dir *dir, const gli_file_will *will,
                          size_t most);

#endif
