/* The messages of a handshake over TCP, and the proofs of the secret. The first
 * byte selects the message that the rest is read as; or the rest is two
 * transcripts, each in its own parts, whose proofs must be equal exactly if the
 * transcripts are. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "security/openssl.h"
#include "security/trust.h"
#include "transport_tcp/handshake.h"
#include "transport_tcp/tcp.h"

static const char written_same[] = "what was read is written the same";

static void read_hello(fuzz_input *input) {
  uint8_t in[GLI_TCP_HELLO_BYTES], out[GLI_TCP_HELLO_BYTES];
  gli_tcp_hello hello;
  fuzz_take_bytes(input, in, sizeof in);
  bool other = gli_tcp_hello_is_other(in, sizeof in);
  if (!gli_tcp_hello_decode(in, &hello)) {
    fuzz_check(!other, "a hello of another version is read");
    return;
  }
  fuzz_check(other == (hello.version != GLI_TCP_VERSION),
             "another version is recognized");
  if (other) return;
  fuzz_check(hello.stream < hello.streams &&
                 hello.streams <= GLI_TCP_STREAMS_MAX &&
                 hello.from != hello.to && hello.tls <= GLI_TLS_BY_CERTIFICATE,
             "a hello that was read is valid");
  gli_tcp_hello_encode(&hello, out);
  fuzz_check(memcmp(in, out, sizeof in) == 0, written_same);
}

static void read_challenge(fuzz_input *input) {
  uint8_t in[GLI_TCP_CHALLENGE_BYTES], out[GLI_TCP_CHALLENGE_BYTES];
  gli_tcp_challenge challenge;
  gli_tcp_reply reply;
  fuzz_take_bytes(input, in, sizeof in);
  if (!gli_tcp_challenge_decode(in, &challenge)) return;
  fuzz_check(gli_tcp_challenge_begins(in) && !gli_tcp_reply_decode(in, &reply),
             "a challenge is no reply");
  gli_tcp_challenge_encode(&challenge, out);
  fuzz_check(memcmp(in, out, sizeof in) == 0, written_same);
}

static void read_reply(fuzz_input *input) {
  uint8_t in[GLI_TCP_REPLY_BYTES], out[GLI_TCP_REPLY_BYTES];
  gli_tcp_reply reply, again;
  fuzz_take_bytes(input, in, sizeof in);
  if (!gli_tcp_reply_decode(in, &reply)) return;
  fuzz_check(reply.answer > 0 && reply.answer < GLI_TCP_ANSWERS &&
                 in[0] == gli_tcp_reply_first(),
             "a reply that was read is valid");
  gli_tcp_reply_encode(&reply, out);
  fuzz_check(gli_tcp_reply_decode(out, &again) && again.key == reply.key &&
                 again.version == reply.version &&
                 again.answer == reply.answer && again.streams == reply.streams,
             written_same);
}

/* ---- proofs -------------------------------------------------------------- */

typedef struct transcript {
  gli_part part[GLI_TRANSCRIPT_PARTS];
  size_t n;
} transcript;

static transcript take_transcript(fuzz_input *input) {
  transcript taken = {.n = fuzz_take_u8(input) % (GLI_TRANSCRIPT_PARTS + 1u)};
  for (size_t i = 0; i < taken.n; i++) {
    fuzz_input piece = fuzz_take_piece(input);
    taken.part[i] = (gli_part){piece.at, piece.left};
  }
  return taken;
}

static bool transcripts_equal(const transcript *a, const transcript *b) {
  if (a->n != b->n) return false;
  for (size_t i = 0; i < a->n; i++) {
    const gli_part *one = &a->part[i], *other = &b->part[i];
    if (one->bytes != other->bytes) return false;
    if (one->bytes > 0 && memcmp(one->data, other->data, one->bytes) != 0)
      return false;
  }
  return true;
}

static void compute(const gli_key *key, const char *protocol,
                    const transcript *over, gli_proofs *proofs) {
  gloo_error error;
  gloo_status status =
      gli_proofs_compute(key, protocol, over->part, over->n, proofs, &error);
  fuzz_check_error(status, &error);
  fuzz_check(status == GLOO_OK, "proofs are computed");
}

static void compare_proofs(fuzz_input *input) {
  gli_key key;
  gli_proofs one, other, elsewhere;
  if (gli_openssl_version() == NULL) return;
  memset(&key, 0x5a, sizeof key);
  transcript a = take_transcript(input), b = take_transcript(input);
  compute(&key, "tcp", &a, &one);
  compute(&key, "tcp", &b, &other);
  compute(&key, "shm", &a, &elsewhere);
  bool same = memcmp(&one, &other, sizeof one) == 0;
  fuzz_check(same == transcripts_equal(&a, &b),
             "proofs are equal exactly if the transcripts are");
  fuzz_check(memcmp(one.initiator, one.acceptor, GLI_TAG_BYTES) != 0,
             "a reflected proof is none");
  fuzz_check(memcmp(one.initiator, elsewhere.initiator, GLI_TAG_BYTES) != 0,
             "a proof of another protocol is none");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static void (*const kinds[])(fuzz_input *) = {read_hello, read_challenge,
                                                read_reply, compare_proofs};
  fuzz_input input = {data, size};
  kinds[fuzz_take_u8(&input) % 4](&input);
  return 0;
}
