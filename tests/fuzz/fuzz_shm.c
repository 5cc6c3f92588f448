/* Both ends of a pair of ranks in shared memory. The peer sends anything on the
 * socket, and writes anything to the shared memory. The first byte selects
 * whether the library connects or accepts, whether it has a secret, and whether
 * messages have checksums. The steps follow, each with a byte that selects its
 * kind: see peer_step. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/bytes.h"
#include "core/descriptor.h"
#include "transport_shm/memory.h"
#include "transport_shm/note.h"
#include "transport_shm/shm.h"
#include "transport_use.h"

enum { STEPS_MAX = 60, POLLS = 3, REQUESTS = 8, REGION_BYTES = 8192 };
enum { CONNECTS = 1, ASKS = 2, CHECKED = 4 };

enum { RING_DATA = GLI_SHM_DATA_MIN, RING_CHUNK = 256 };

typedef struct shm_peer {
  transport_use use;
  gli_shm_endpoint here; /* the peer's */
  int listener;
  uint8_t how;
  /* The peer's memory, the same for all inputs. */
  gli_shm_out out;
  int page_fd, region_fd;
  /* State of one input. */
  int fd;                 /* the socket; -1: closed */
  gli_shm_memory *theirs; /* the library's ring; NULL: none yet */
  size_t theirs_bytes;
  int n_requests;
  gli_send_request requests[REQUESTS];
  gli_header last;
} shm_peer;

static uint8_t payload[USE_BYTES];

/* ---- the peer's end -------------------------------------------------------
 */

static int peer_make(size_t bytes, void **memory) {
  int fd;
  const char *what;
  fuzz_check(gli_shm_memory_make(bytes, bytes, &fd, memory, &what) == 0,
             "there is memory that can be shared");
  return fd;
}

static void peer_make_memory(shm_peer *p) {
  void *memory;
  const char *what;
  p->out.bytes = gli_shm_ring_bytes(RING_DATA);
  p->out.data_bytes = RING_DATA;
  p->out.chunk = RING_CHUNK;
  p->out.fd = peer_make(p->out.bytes, &memory);
  p->out.memory = memory;
  p->page_fd = peer_make(GLI_SHM_PAGE_BYTES, &memory);
  p->region_fd = peer_make(REGION_BYTES, &memory);
  fuzz_check(gli_shm_endpoint_here(&p->here, &what) == 0, "it has an address");
  memset(p->here.name, 0xa5, sizeof p->here.name); /* not the library's */
  gli_put_u32(p->here.name, (uint32_t)getpid());   /* nor another run's */
  gli_put_u32(p->here.name + 12, (uint32_t)getpid());
  p->listener = gli_shm_listen(&p->here);
  fuzz_check(p->listener >= 0, "it listens");
}

static void peer_reset_memory(shm_peer *p) {
  int fd = p->out.fd;
  memset(p->out.memory, 0, p->out.bytes);
  p->out = (gli_shm_out){.memory = p->out.memory,
                         .bytes = p->out.bytes,
                         .fd = fd,
                         .data_bytes = RING_DATA,
                         .chunk = RING_CHUNK,
                         .checked = (p->how & CHECKED) != 0};
}

static void peer_drop_theirs(shm_peer *p) {
  if (p->theirs != NULL) munmap(p->theirs, p->theirs_bytes);
  p->theirs = NULL;
}

/* Reads a note. The library's ring comes with its HELLO or ACCEPTED. */
static void peer_read_note(shm_peer *p) {
  gli_shm_note note;
  while (p->fd >= 0 && gli_shm_note_receive(p->fd, &note) == GLI_SHM_GOT_NOTE) {
    if (note.fds[GLI_SHM_FD_RING] >= 0) {
      peer_drop_theirs(p);
      p->theirs_bytes = gli_shm_ring_bytes(note.data_bytes);
      void *memory = mmap(NULL, p->theirs_bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED, note.fds[GLI_SHM_FD_RING], 0);
      if (memory != MAP_FAILED) p->theirs = memory;
    }
    gli_shm_note_close(&note);
  }
}

static void peer_turn(shm_peer *p) {
  gli_shm *t = (gli_shm *)p->use.t;
  for (int i = 0; i < POLLS; i++) {
    atomic_store(&t->look, true);
    p->use.ops->poll(p->use.t);
    if (p->fd < 0 && (p->how & CONNECTS) != 0)
      p->fd = gli_shm_accept(p->listener);
  }
  peer_read_note(p);
}

static void peer_hang_up(shm_peer *p) {
  gli_fd_close(p->fd);
  p->fd = -1;
}

static bool peer_is_connected(shm_peer *p) {
  if (p->fd < 0 && (p->how & CONNECTS) == 0)
    p->fd = gli_shm_connect(&((gli_shm *)p->use.t)->here);
  return p->fd >= 0;
}

/* ---- notes from the peer ------------------------------------------------- */

static gli_shm_note peer_note(const shm_peer *p, gli_shm_say say) {
  return (gli_shm_note){.version = GLI_SHM_VERSION,
                        .say = say,
                        .from = 1,
                        .to = 0,
                        .key = USE_KEY_OWN,
                        .data_bytes = RING_DATA,
                        .chunk = RING_CHUNK,
                        .proof_at = (uint64_t)(uintptr_t)&payload,
                        .fds = {-1, -1},
                        .asks = (p->how & ASKS) != 0};
}

/* Changes one of the note's numbers, as if it came from another rank. */
static void note_spoil(gli_shm_note *note, int how) {
  switch (how) {
    case 1:
      note->key = 0; /* come later */
      break;
    case 2:
      note->key = 1; /* wrong direction */
      break;
    case 3:
      note->key ^= 2;
      break;
    case 4:
      note->from = 2;
      break;
    case 5:
      note->to = 1;
      break;
    case 6:
      note->version++;
      break;
    case 7:
      note->data_bytes *= 2;
      break;
    case 8:
      note->data_bytes = UINT32_C(1) << 31;
      break;
    case 9:
      note->chunk = note->data_bytes;
      break;
    case 10:
      note->chunk = 63;
      break;
    case 11:
      note->fds[GLI_SHM_FD_RING] = note->fds[GLI_SHM_FD_PAGE];
      break;
    case 12:
      note->fds[GLI_SHM_FD_PAGE] = -1;
      break;
    case 13:
      note->asks ^= 1;
      break;
    case 14:
      note->tag[0] ^= 1;
      break;
    case 15:
      note->say = GLI_SHM_DECLINED;
      break;
    case 16:
      note->say = GLI_SHM_USE_MINE;
      break;
    default:
      break;
  }
}

static void peer_greet(shm_peer *p, int how) {
  bool accepts = (p->how & CONNECTS) != 0;
  gli_shm_note note = peer_note(p, accepts ? GLI_SHM_ACCEPTED : GLI_SHM_HELLO);
  gli_key key;
  gloo_error error;
  if (!peer_is_connected(p)) return;
  if (note.asks != 0 && gli_peer_key(&p->use.config, &key, &error) == GLOO_OK)
    (void)gli_shm_note_sign(&key, &note, &error);
  note.fds[GLI_SHM_FD_RING] = p->out.fd;
  note.fds[GLI_SHM_FD_PAGE] = p->page_fd;
  note_spoil(&note, how);
  (void)gli_shm_note_send(p->fd, &note);
  if (accepts) return;
  peer_turn(p);
  note = peer_note(p, GLI_SHM_CONFIRMED);
  if (p->fd >= 0) (void)gli_shm_note_send(p->fd, &note);
}

/* Sends any packet, with any of the peer's descriptors. */
static void peer_say(shm_peer *p, fuzz_input *input) {
  uint8_t which = fuzz_take_u8(input);
  fuzz_input piece = fuzz_take_piece(input);
  const int fds[4] = {p->out.fd, p->page_fd, p->region_fd, p->listener};
  int sent[3];
  size_t n = which % 4;
  for (size_t i = 0; i < n; i++) sent[i] = fds[which >> (2 + 2 * i) & 3];
  union {
    char bytes[CMSG_SPACE(sizeof sent)];
    struct cmsghdr align;
  } room = {{0}};
  struct iovec part = {(void *)(uintptr_t)piece.at, piece.left};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (n > 0) {
    message.msg_control = room.bytes;
    message.msg_controllen = (socklen_t)CMSG_SPACE(n * sizeof sent[0]);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head =
        (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                         .cmsg_type = SCM_RIGHTS,
                         .cmsg_len = (socklen_t)CMSG_LEN(n * sizeof sent[0])};
    memcpy(CMSG_DATA(head), sent, n * sizeof sent[0]);
  }
  if (peer_is_connected(p) && piece.left > 0)
    (void)sendmsg(p->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Sends a note that is valid by itself. */
static void peer_say_note(shm_peer *p, fuzz_input *input) {
  gli_shm_note note =
      peer_note(p, (gli_shm_say)(fuzz_take_u8(input) % GLI_SHM_SAYS));
  note.region = fuzz_take_u8(input);
  note.region_bytes = note.region % 2 == 0 ? REGION_BYTES : 4096;
  if (note.say == GLI_SHM_REGION) note.fds[0] = p->region_fd;
  if (peer_is_connected(p)) (void)gli_shm_note_send(p->fd, &note);
}

/* ---- writes to shared memory --------------------------------------------- */

/* Sends a message; `damaged`: with a byte of the payload changed afterwards. */
static void peer_send(shm_peer *p, bool damaged, fuzz_input *input) {
  uint8_t *first = p->out.memory->data + p->out.at % RING_DATA;
  fuzz_input start = *input;
  (void)fuzz_take_u16(input); /* of the header */
  size_t bytes = fuzz_take_u16(input) % USE_BYTES;
  uint64_t progress = 0;
  p->last = use_make_header(&start, bytes);
  if (p->out.broken) return;
  if (p->out.checked)
    (void)gli_shm_put_checked(&p->out, &p->last, payload, &progress);
  else
    (void)gli_shm_put(&p->out, &p->last, payload, &progress);
  if (damaged) *first ^= 1;
}

static void peer_write(fuzz_input *input, void *memory, size_t most) {
  size_t at = fuzz_take_u16(input);
  fuzz_input piece = fuzz_take_piece(input);
  if (memory != NULL && at + piece.left <= most && piece.left > 0)
    memcpy((uint8_t *)memory + at, piece.at, piece.left);
}

/* Writes a record of the input to the slot that is read next. */
static void peer_write_slot(shm_peer *p, fuzz_input *input) {
  gli_shm_slot *slot = &p->out.memory->slots[p->out.next % GLI_SHM_SLOTS];
  fuzz_input piece = fuzz_take_piece(input);
  fuzz_take_bytes(&piece, slot, sizeof *slot);
  atomic_store(&slot->flag.sequence, ++p->out.next);
}

/* ---- concurrent calls of the library ------------------------------------- */

static void peer_have_sent(shm_peer *p, fuzz_input *input) {
  size_t bytes = fuzz_take_u16(input) % USE_BYTES;
  if (p->use.pair == NULL || p->n_requests == REQUESTS) return;
  gli_send_request *request = &p->requests[p->n_requests++];
  *request =
      (gli_send_request){.header = {.type = GLI_MESSAGE_DATA, .length = bytes},
                         .payload = payload};
  (void)p->use.pair->ops->send(p->use.pair, request);
}

static void peer_have_read(shm_peer *p, fuzz_input *input) {
  uint64_t rkey = fuzz_take_u64(input);
  size_t bytes = fuzz_take_u16(input) % USE_BYTES;
  uint8_t room[USE_BYTES];
  void *memory;
  gloo_error error;
  if (p->use.pair == NULL || !gli_shm_pair_up(p->use.pair)) return;
  bool write = bytes % 2 == 0;
  gloo_status status =
      gli_shm_rkey_map(p->use.pair, rkey, bytes, write, &memory, &error);
  fuzz_check_error(status, &error);
  if (status == GLOO_OK && memory != NULL && bytes > 0) {
    memcpy(room, memory, bytes);
    if (write) memcpy(memory, room, bytes);
  }
  status = gli_shm_rkey_get(p->use.pair, rkey, room, bytes, &error);
  fuzz_check_error(status, &error);
  (void)gli_shm_pair_revoked(p->use.pair);
}

static void peer_take_now(shm_peer *p) {
  gli_taken taken;
  uint8_t room[USE_BYTES];
  if (p->use.pair == NULL || p->use.pair->ops->take_now == NULL) return;
  if (p->last.type != GLI_MESSAGE_DATA || p->last.form != GLI_FORM_BYTES)
    return;
  if (p->use.pair->ops->take_now(p->use.pair, &p->last, &taken) &&
      p->last.length > 0)
    memcpy(room, taken.payload, (size_t)p->last.length);
}

/* ---- one input ----------------------------------------------------------- */

static void peer_begin(shm_peer *p, uint8_t how) {
  gli_address address;
  p->how = how;
  if (gli_openssl_version() == NULL) p->how &= (uint8_t)~ASKS;
  p->fd = -1;
  p->n_requests = 0;
  p->last.type = 0;
  p->here.checksum = (how & CHECKED) != 0;
  peer_reset_memory(p);
  gli_shm_endpoint_encode(&p->here, &address);
  use_expect(&p->use, &address, (p->how & ASKS) != 0);
  if ((how & CONNECTS) == 0) return;
  (void)use_connect(&p->use);
  peer_turn(p);
}

static void peer_end(shm_peer *p) {
  gli_shm *t = (gli_shm *)p->use.t;
  use_close_pair(&p->use);
  peer_hang_up(p);
  while ((p->fd = gli_shm_accept(p->listener)) >= 0) peer_hang_up(p);
  peer_drop_theirs(p);
  atomic_store(&t->look, true);
  p->use.ops->poll(p->use.t);
  gli_shm_half_open_close(t);
  fuzz_check(t->peers.pairs == NULL && t->peers.leaving == NULL &&
                 t->memory_bytes == 0 && p->use.owed == 0,
             "nothing is left of the pair");
}

static void peer_step(shm_peer *p, fuzz_input *input) {
  uint8_t what = fuzz_take_u8(input);
  switch (what % 11) {
    case 0:
      peer_greet(p, what / 11);
      break;
    case 1:
      peer_send(p, what / 11 % 4 == 1, input);
      if (what / 11 % 4 == 2) peer_take_now(p);
      break;
    case 2:
      peer_write_slot(p, input);
      break;
    case 3:
      peer_say_note(p, input);
      break;
    case 4:
      peer_say(p, input);
      break;
    case 5:
      peer_write(input, p->out.memory, p->out.bytes);
      break;
    case 6:
      peer_write(input, p->theirs, sizeof *p->theirs);
      break;
    case 7:
      peer_have_sent(p, input);
      break;
    case 8:
      peer_have_read(p, input);
      break;
    case 9:
      (void)gli_shm_put_cut(&p->out);
      break;
    default:
      peer_hang_up(p);
  }
  peer_turn(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static shm_peer p;
  fuzz_input input = {data, bytes};
  if (p.use.t == NULL) {
    use_open(&p.use, &gli_transport_shm, NULL);
    peer_make_memory(&p);
  }
  peer_begin(&p, fuzz_take_u8(&input));
  for (int i = 0; i < STEPS_MAX && input.left > 0; i++) peer_step(&p, &input);
  peer_end(&p);
  return 0;
}
