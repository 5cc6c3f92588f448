/* Layout, little-endian: 0 magic  8 version  12 say  16 from  20 to  24 key
 * 32 data_bytes  36 chunk  40 why  44 reads  48 proof_at  56 proof  64 region
 * 68 asks  72 region_bytes  80 tag. Magic and version have the same place in
 * all versions. */
#include "transport_shm/note.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/bytes.h"
#include "core/descriptor.h"
#include "transport_shm/system.h"

enum { NOTE_BYTES = 96, HEAD_BYTES = 16 };
static const uint8_t magic[8] = "gloo_c=";

static void shm_note_encode(const gli_shm_note *note, uint8_t out[NOTE_BYTES]) {
  memset(out, 0, NOTE_BYTES);
  memcpy(out, magic, sizeof magic);
  gli_put_u32(out + 8, note->version);
  gli_put_u32(out + 12, note->say);
  gli_put_u32(out + 16, note->from);
  gli_put_u32(out + 20, note->to);
  gli_put_u64(out + 24, note->key);
  gli_put_u32(out + 32, note->data_bytes);
  gli_put_u32(out + 36, note->chunk);
  gli_put_u32(out + 40, note->why);
  gli_put_u32(out + 44, note->reads);
  gli_put_u64(out + 48, note->proof_at);
  gli_put_u64(out + 56, note->proof);
  gli_put_u32(out + 64, note->region);
  gli_put_u32(out + 68, note->asks);
  gli_put_u64(out + 72, note->region_bytes);
  memcpy(out + 80, note->tag, sizeof note->tag);
}

static bool shm_note_decode(const uint8_t *in, size_t bytes,
                            gli_shm_note *note) {
  if (bytes < HEAD_BYTES || memcmp(in, magic, sizeof magic) != 0) return false;
  note->version = gli_get_u32(in + 8);
  note->say = gli_get_u32(in + 12);
  if (note->say == 0) return false;
  if (note->version != GLI_SHM_VERSION) return true;
  if (bytes != NOTE_BYTES) return false;
  note->from = gli_get_u32(in + 16);
  note->to = gli_get_u32(in + 20);
  note->key = gli_get_u64(in + 24);
  note->data_bytes = gli_get_u32(in + 32);
  note->chunk = gli_get_u32(in + 36);
  note->why = gli_get_u32(in + 40);
  note->reads = gli_get_u32(in + 44);
  note->proof_at = gli_get_u64(in + 48);
  note->proof = gli_get_u64(in + 56);
  note->region = gli_get_u32(in + 64);
  note->asks = gli_get_u32(in + 68);
  note->region_bytes = gli_get_u64(in + 72);
  memcpy(note->tag, in + 80, sizeof note->tag);
  return note->say < GLI_SHM_SAYS && note->reads <= 1 && note->asks <= 1;
}

/* ---- proof of the secret ------------------------------------------------- */

static gloo_status shm_note_tag(const gli_key *key, uint32_t say, uint32_t from,
                                uint32_t to, uint8_t tag[GLI_TAG_BYTES],
                                gloo_error *error) {
  bool hello = say == GLI_SHM_HELLO;
  uint8_t ranks[8];
  gli_put_u32(ranks, hello ? from : to);
  gli_put_u32(ranks + 4, hello ? to : from);
  const gli_part transcript = {ranks, sizeof ranks};
  gli_proofs proofs;
  gloo_status status =
      gli_proofs_compute(key, "shm", &transcript, 1, &proofs, error);
  if (status == GLOO_OK)
    memcpy(tag, hello ? proofs.initiator : proofs.acceptor, GLI_TAG_BYTES);
  return status;
}

gloo_status gli_shm_note_sign(const gli_key *key, gli_shm_note *note,
                              gloo_error *error) {
  note->asks = 1;
  return shm_note_tag(key, note->say, note->from, note->to, note->tag, error);
}

bool gli_shm_note_is_signed(const gli_key *key, uint32_t from, uint32_t to,
                            const gli_shm_note *note) {
  uint8_t right[GLI_TAG_BYTES];
  gloo_error ignored;
  return note->asks == 1 &&
         shm_note_tag(key, note->say, from, to, right, &ignored) == GLOO_OK &&
         gli_tags_equal(note->tag, right);
}

/* ---- sending and receiving ----------------------------------------------- */

static size_t count_fds(const gli_shm_note *note) {
  size_t n = 0;
  while (n < GLI_SHM_FDS && note->fds[n] >= 0) n++;
  return n;
}

static size_t expected_fds(uint32_t say) {
  if (say == GLI_SHM_HELLO || say == GLI_SHM_ACCEPTED) return GLI_SHM_FDS;
  return say == GLI_SHM_REGION ? 1 : 0;
}

int gli_shm_note_send(int socket, const gli_shm_note *note) {
  uint8_t bytes[NOTE_BYTES];
  shm_note_encode(note, bytes);
  return gli_shm_message_send(socket, bytes, sizeof bytes, note->fds,
                              count_fds(note));
}

/* Ignores a full socket: the peer has notes to read, and will not sleep. */
void gli_shm_note_ring(int socket) {
  const gli_shm_note note = {
      .version = GLI_SHM_VERSION, .say = GLI_SHM_RING, .fds = {-1, -1}};
  (void)gli_shm_note_send(socket, &note);
}

gli_shm_received gli_shm_note_receive(int socket, gli_shm_note *note) {
  int fds[GLI_SHM_FDS] = {-1, -1};
  uint8_t bytes[NOTE_BYTES + 1];
  ssize_t got = gli_shm_message_receive(socket, bytes, sizeof bytes, NOTE_BYTES,
                                        fds, GLI_SHM_FDS);
  *note = (gli_shm_note){.fds = {-1, -1}};
  if (got < 0 && gli_would_block(errno)) return GLI_SHM_GOT_NOTHING;
  if (got < 0 && errno == EPERM) return GLI_SHM_GOT_STRANGER;
  if (got < 0 && errno == EBADMSG) return GLI_SHM_GOT_GARBAGE;
  if (got <= 0) return GLI_SHM_GOT_END;
  memcpy(note->fds, fds, sizeof fds);
  if (shm_note_decode(bytes, (size_t)got, note)) {
    /* If descriptors were lost, the others are useless, but the note counts. */
    if (count_fds(note) != expected_fds(note->say)) gli_shm_note_close(note);
    return GLI_SHM_GOT_NOTE;
  }
  gli_shm_note_close(note);
  return GLI_SHM_GOT_GARBAGE;
}

void gli_shm_note_close(gli_shm_note *note) {
  for (int i = 0; i < GLI_SHM_FDS; i++) {
    if (note->fds[i] >= 0) close(note->fds[i]);
    note->fds[i] = -1;
  }
}
