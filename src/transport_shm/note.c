/* Layout, little-endian: 0 magic  8 version  12 say  16 from  20 to  24 key
 * 32 data_bytes  36 chunk  40 why  44 reads  48 proof_at  56 proof  64 region
 * 68 asks  72 region_bytes  80 tag. Magic and version have the same place in
 * all versions. */
#define _DEFAULT_SOURCE /* CMSG_SPACE */
#include "transport_shm/note.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/bytes.h"
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

/* Space for descriptors, with ANCILLARY_BYTES at most in use: CMSG_SPACE is not
 * constant on every system. The kernel closes any that do not fit. */
enum { ANCILLARY_BYTES = 64 };
typedef union ancillary {
  char bytes[ANCILLARY_BYTES];
  struct cmsghdr align;
} ancillary;

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
  struct iovec part = {bytes, sizeof bytes};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  ancillary room;
  size_t fds_bytes = count_fds(note) * sizeof(int);
  if (fds_bytes > 0) {
    memset(&room, 0, sizeof room);
    message.msg_control = room.bytes;
    message.msg_controllen = (socklen_t)CMSG_SPACE(fds_bytes);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = (socklen_t)CMSG_LEN(fds_bytes);
    memcpy(CMSG_DATA(head), note->fds, fds_bytes);
  }
  ssize_t sent;
  do sent = gli_shm_message_send(socket, &message, sizeof bytes);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) return errno;
  return sent == NOTE_BYTES ? 0 : EMSGSIZE;
}

/* Ignores a full socket: the peer has notes to read, and will not sleep. */
void gli_shm_note_ring(int socket) {
  const gli_shm_note note = {
      .version = GLI_SHM_VERSION, .say = GLI_SHM_RING, .fds = {-1, -1}};
  (void)gli_shm_note_send(socket, &note);
}

#if defined(__clang__) /* musl's CMSG_NXTHDR compares types of two signs */
#pragma clang diagnostic ignored "-Wsign-compare"
#endif

/* Stores each received descriptor in the note, or closes it. */
static void take_descriptors(struct msghdr *message, gli_shm_note *note) {
  for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL;
       head = CMSG_NXTHDR(message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
      continue;
    size_t n = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
      if (i < GLI_SHM_FDS && note->fds[i] < 0)
        note->fds[i] = gli_shm_message_fd(fd);
      else
        close(fd);
    }
  }
}

gli_shm_received gli_shm_note_receive(int socket, gli_shm_note *note) {
  *note = (gli_shm_note){.fds = {-1, -1}};
  uint8_t bytes[NOTE_BYTES + 1];
  struct iovec part = {bytes, sizeof bytes};
  ancillary room;
  struct msghdr message = {
      .msg_iov = &part,
      .msg_iovlen = 1,
      .msg_control = room.bytes,
      .msg_controllen = CMSG_SPACE(GLI_SHM_FDS * sizeof(int))};
  ssize_t got;
  /* The kernel reports a reset once, before the packets sent until then. */
  int resets = 0;
  do got = gli_shm_message_receive(socket, &message, NOTE_BYTES);
  while (got < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));
  if (got < 0) {
    bool later = errno == EAGAIN || errno == EWOULDBLOCK;
    return later ? GLI_SHM_GOT_NOTHING : GLI_SHM_GOT_END;
  }
  if (got == 0) return GLI_SHM_GOT_END;
  take_descriptors(&message, note);
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
