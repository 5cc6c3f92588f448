/* Layout, little endian: 0 magic  8 version  12 say  16 from  20 to  24 key
 * 32 data_bytes  36 chunk  40 why  44 zero. Magic and version stay where they
 * are in all versions. Linux only. */
#define _GNU_SOURCE
#include "transport_shm/note.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/bytes.h"

enum { NOTE_BYTES = 48 };
static const uint8_t magic[8] = "gloo_c=";

static void encode(const gli_shm_note *note, uint8_t out[NOTE_BYTES]) {
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
}

static bool decode(const uint8_t in[NOTE_BYTES], gli_shm_note *note) {
  if (memcmp(in, magic, sizeof magic) != 0) return false;
  note->version = gli_get_u32(in + 8);
  note->say = gli_get_u32(in + 12);
  if (note->say == 0) return false;
  if (note->version != GLI_SHM_VERSION) return true;
  note->from = gli_get_u32(in + 16);
  note->to = gli_get_u32(in + 20);
  note->key = gli_get_u64(in + 24);
  note->data_bytes = gli_get_u32(in + 32);
  note->chunk = gli_get_u32(in + 36);
  note->why = gli_get_u32(in + 40);
  return note->say < GLI_SHM_SAYS && gli_get_u32(in + 44) == 0;
}

/* Room for descriptors; more than we send would be cut off and closed. */
typedef union ancillary {
  char bytes[CMSG_SPACE(GLI_SHM_FDS * sizeof(int))];
  struct cmsghdr align;
} ancillary;

int gli_shm_note_send(int socket, const gli_shm_note *note) {
  uint8_t bytes[NOTE_BYTES];
  encode(note, bytes);
  struct iovec part = {bytes, sizeof bytes};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  ancillary room;
  if (note->fds[0] >= 0) {
    memset(&room, 0, sizeof room);
    message.msg_control = room.bytes;
    message.msg_controllen = sizeof room.bytes;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(GLI_SHM_FDS * sizeof(int));
    memcpy(CMSG_DATA(head), note->fds, GLI_SHM_FDS * sizeof(int));
  }
  ssize_t sent;
  do sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) return errno;
  return sent == NOTE_BYTES ? 0 : EMSGSIZE;
}

/* All descriptors that came are either in the note or closed. */
static bool take_descriptors(struct msghdr *message, gli_shm_note *note) {
  bool sensible = (message->msg_flags & MSG_CTRUNC) == 0;
  for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL;
       head = CMSG_NXTHDR(message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
      continue;
    size_t n = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
      if (i < GLI_SHM_FDS && note->fds[i] < 0)
        note->fds[i] = fd;
      else
        close(fd);
    }
    if (n != GLI_SHM_FDS) sensible = false;
  }
  return sensible;
}

gli_shm_received gli_shm_note_receive(int socket, gli_shm_note *note) {
  *note = (gli_shm_note){.fds = {-1, -1, -1}};
  uint8_t bytes[NOTE_BYTES + 1];
  struct iovec part = {bytes, sizeof bytes};
  ancillary room;
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = room.bytes,
                           .msg_controllen = sizeof room.bytes};
  ssize_t got;
  do got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  while (got < 0 && errno == EINTR);
  if (got < 0) {
    bool later = errno == EAGAIN || errno == EWOULDBLOCK;
    return later ? GLI_SHM_GOT_NOTHING : GLI_SHM_GOT_END;
  }
  if (got == 0) return GLI_SHM_GOT_END;
  bool whole = take_descriptors(&message, note);
  if (got == NOTE_BYTES && decode(bytes, note)) {
    /* Out of descriptors: what came is of no use, but the note counts. */
    if (!whole) gli_shm_note_close(note);
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
