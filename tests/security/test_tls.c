/* TLS between two ends: accepted and refused peers, an attacker on the wire,
 * and sockets with small buffers. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pki.h"
#include "tls_ends.h"

static const char *folder;
static pki_authority *authority, *other_authority;

/* ---- files --------------------------------------------------------------- */

static const char *path_of(const char *name) {
  enum { PATHS = 8 };
  static char paths[PATHS][128];
  static int next;
  char *path = paths[next++ % PATHS];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static int set_up_files(void **state) {
  (void)state;
  ends_forget_environment();
  folder = pki_folder();
  authority = pki_authority_new("the authority");
  other_authority = pki_authority_new("another authority");
  pki_authority_write(authority, path_of("ca.pem"));
  pki_authority_write(other_authority, path_of("other_ca.pem"));
  pki_issue(authority, &(pki_paper){.names = "URI:gloo:rank/0"},
            path_of("rank0.pem"), NULL);
  pki_issue(authority, &(pki_paper){.names = "URI:gloo:rank/1"},
            path_of("rank1.pem"), NULL);
  return 0;
}

static int tear_down_files(void **state) {
  (void)state;
  pki_authority_free(authority);
  pki_authority_free(other_authority);
  pki_folder_remove(folder);
  return 0;
}

static gli_tls_settings *settings_of(const char *name) {
  return ends_by_certificate(path_of(name), path_of("ca.pem"));
}

static gli_tls_settings *settings_issued(const pki_authority *by,
                                         const pki_paper *paper) {
  pki_issue(by, paper, path_of("issued.pem"), NULL);
  return settings_of("issued.pem");
}

/* Opens both ends with one kind of authentication: 0 by the secret, 1 by
 * certificates. */
static tls_ends ends_of_kind(int kind) {
  gli_tls_settings *here = kind ? settings_of("rank0.pem") : ends_by_secret();
  gli_tls_settings *there = kind ? settings_of("rank1.pem") : ends_by_secret();
  gli_key key = ends_key(1);
  tls_ends ends = ends_open(here, there, &key, &key);
  gli_tls_settings_release(here); /* the connections hold references */
  gli_tls_settings_release(there);
  return ends;
}

static tls_ends ends_up(int kind) {
  tls_ends ends = ends_of_kind(kind);
  assert_true(ends_shake_hands(&ends));
  return ends;
}

/* ---- accepted and refused peers ------------------------------------------ */

static void both_kinds_connect(void **state) {
  (void)state;
  for (int kind = 0; kind < 2; kind++) {
    tls_ends ends = ends_up(kind);
    ends_assert_talk(&ends);
    ends_close(&ends);
  }
}

static void another_key_is_refused_at_both_ends(void **state) {
  gli_tls_settings *settings = ends_by_secret();
  gli_key key = ends_key(1), other = ends_key(2);
  (void)state;
  tls_ends ends = ends_open(settings, settings, &key, &other);
  assert_false(ends_shake_hands(&ends));
  ends_assert_why(&ends, HERE, "has a different secret, or none");
  ends_assert_why(&ends, THERE, "has a different secret, or none");
  ends_close(&ends);
  gli_tls_settings_release(settings);
}

/* Neither end accepts the other kind. */
static void the_kinds_do_not_mix(void **state) {
  gli_tls_settings *secret = ends_by_secret(),
                   *paper = settings_of("rank0.pem");
  gli_key key = ends_key(1);
  (void)state;
  tls_ends ends = ends_open(secret, paper, &key, &key);
  assert_false(ends_shake_hands(&ends));
  ends_close(&ends);
  ends = ends_open(paper, secret, &key, &key);
  assert_false(ends_shake_hands(&ends));
  ends_assert_why(&ends, THERE, "has a different secret, or none");
  ends_close(&ends);
  gli_tls_settings_release(secret);
  gli_tls_settings_release(paper);
}

/* Fails unless the certificate is refused at the ends given by `here` and
 * `there`, and accepted at others. The peer reports `why`. */
static void assert_paper_refused(const pki_authority *by, pki_paper paper,
                                 const char *why, bool here, bool there) {
  gli_tls_settings *good = settings_of("rank0.pem");
  gli_tls_settings *bad = settings_issued(by, &paper);
  const bool refused[ENDS] = {here, there};
  for (int at = 0; at < ENDS; at++) {
    gli_tls_settings *is_here = at == HERE ? bad : good;
    tls_ends ends = ends_open(is_here, at == HERE ? good : bad, NULL, NULL);
    bool done = ends_shake_hands(&ends);
    if (refused[at]) {
      assert_false(done);
      ends_assert_why(&ends, 1 - at, why);
      ends_assert_why(&ends, at, "rejected the c");
    } else {
      assert_true(done);
    }
    ends_close(&ends);
  }
  gli_tls_settings_release(good);
  gli_tls_settings_release(bad);
}

static void bad_certificates_are_refused_and_both_say_why(void **state) {
  const char *names = "URI:gloo:rank/1";
  pki_paper paper = {.names = names};
  (void)state;
  assert_paper_refused(other_authority, paper,
                       "has a certificate that is not trusted: ", true, true);
  paper = (pki_paper){.names = names, .from_s = -7200, .until_s = -3600};
  assert_paper_refused(authority, paper, "certificate has expired", true, true);
  paper = (pki_paper){.names = names, .from_s = 3600, .until_s = 7200};
  assert_paper_refused(authority, paper, "not yet valid", true, true);
  paper = (pki_paper){.names = names, .use = "serverAuth"};
  assert_paper_refused(authority, paper, "purpose", true, false);
  paper = (pki_paper){.names = names, .use = "clientAuth"};
  assert_paper_refused(authority, paper, "purpose", false, true);
  paper = (pki_paper){.names = names, .use = "clientAuth,serverAuth"};
  assert_paper_refused(authority, paper, "", false, false);
}

/* ---- the rank that a certificate names ----------------------------------- */

typedef struct claim {
  const char *names;
  uint32_t rank;
  const char *at, *name; /* listening address, and GLOO_TLS_NAME */
  bool is_rank, is_host, is_member;
} claim;

static const claim claims[] = {
    {"URI:gloo:rank/1", 1, "10.0.0.1", NULL, true, false, true},
    {"URI:gloo:rank/0", 0, "10.0.0.1", NULL, true, true, true},
    {"URI:gloo:rank/1", 2, "10.0.0.1", NULL, false, false, true},
    {"URI:gloo:rank/1", 11, "10.0.0.1", NULL, false, false, true},
    {"URI:gloo:rank/11", 1, "10.0.0.1", NULL, false, false, true},
    {"URI:gloo:rank/01", 1, "10.0.0.1", NULL, false, false, true},
    {"URI:gloo:rank/1,URI:gloo:rank/2", 2, "10.0.0.1", NULL, true, false, true},
    {"URI:gloo:rank/4294967295", UINT32_MAX, "10.0.0.1", NULL, true, false,
     true},
    /* The address matches, but the certificate names another rank. */
    {"URI:gloo:rank/1,IP:10.0.0.1", 2, "10.0.0.1", "node", false, false, true},
    {"URI:gloo:rank/1,DNS:node", 2, "10.0.0.1", "node", false, false, true},
    /* A certificate of the same authority for another use. */
    {"URI:gloo:operator,IP:10.0.0.1", 1, "10.0.0.1", NULL, false, false, false},
    {"URI:https://rank/1,IP:10.0.0.1", 1, "10.0.0.1", NULL, true, true, true},
    {"IP:10.0.0.1", 1, "10.0.0.1", NULL, true, true, true},
    {"IP:10.0.0.2", 1, "10.0.0.1", NULL, false, false, false},
    {"IP:fd00::1", 1, "fd00::1", NULL, true, true, true},
    {"IP:fd00::2", 1, "fd00::1", NULL, false, false, false},
    {"DNS:node", 1, "10.0.0.1", "node", true, true, true},
    {"DNS:node", 1, "10.0.0.1", NULL, false, false, false},
    {"DNS:edon", 1, "10.0.0.1", "node", false, false, false},
    {"DNS:host.example", 1, "10.0.0.1", NULL, false, true, false},
    {"DNS:10.0.0.1", 1, "10.0.0.1", NULL, false, false, false},
    {NULL, 1, "10.0.0.1", "a rank", false, false, false}, /* the CN */
};

/* Returns whether the end `looks`, which connects to that rank, accepts the
 * other's certificate. If not, both ends report why. */
static bool is_taken_for(gli_tls_settings *here, gli_tls_settings *there,
                         int looks, uint32_t rank, const gli_endpoint at[2]) {
  char uri[32];
  tls_ends ends = ends_open(here, there, NULL, NULL);
  gli_tls_expect_rank(ends.end[looks].tls, rank, at, 2);
  bool done = ends_shake_hands(&ends);
  if (!done) {
    snprintf(uri, sizeof uri, "gloo:rank/%u", (unsigned)rank);
    ends_assert_why(&ends, looks, "has a certificate for another rank: ");
    ends_assert_why(&ends, looks, uri);
    ends_assert_why(&ends, 1 - looks, "rejected the certificate of this rank");
  }
  ends_close(&ends);
  return done;
}

static void assert_claim(const claim *c) {
  gloo_tls_options o = GLOO_TLS_OPTIONS_INIT;
  gli_endpoint at[2];
  o.use = 1;
  o.certificate = path_of("rank0.pem");
  o.authority = path_of("ca.pem");
  o.name = c->name;
  gli_tls_settings *looks = ends_settings(&o);
  gli_tls_settings *shows =
      settings_issued(authority, &(pki_paper){.names = c->names});
  assert_true(gli_endpoint_from_text("192.168.0.9", &at[0]));
  assert_true(gli_endpoint_from_text(c->at, &at[1]));
  bool is_rank = is_taken_for(looks, shows, HERE, c->rank, at);
  assert_int_equal(is_taken_for(shows, looks, THERE, c->rank, at), is_rank);
  tls_ends ends = ends_open(looks, shows, NULL, NULL);
  assert_true(ends_shake_hands(&ends));
  gli_tls *tls = ends.end[HERE].tls;
  bool is_host = gli_tls_is_host(tls, "host.example", &at[1]);
  bool is_member = gli_tls_is_member(tls, &at[1]);
  if (is_rank != c->is_rank || is_host != c->is_host ||
      is_member != c->is_member)
    fail_msg("%s as rank %u at %s: %d %d %d", c->names, (unsigned)c->rank,
             c->at, is_rank, is_host, is_member);
  ends_close(&ends);
  gli_tls_settings_release(looks);
  gli_tls_settings_release(shows);
}

static void certificates_are_of_whom_they_name(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
    assert_claim(&claims[i]);
}

static void by_the_secret_nobody_is_asked_for_a_name(void **state) {
  tls_ends ends = ends_of_kind(0);
  (void)state;
  for (int i = 0; i < ENDS; i++)
    gli_tls_expect_rank(ends.end[i].tls, 3, NULL, 0);
  assert_true(ends_shake_hands(&ends));
  for (int i = 0; i < ENDS; i++) {
    assert_true(gli_tls_is_host(ends.end[i].tls, NULL, NULL));
    assert_true(gli_tls_is_member(ends.end[i].tls, NULL));
  }
  ends_close(&ends);
}

/* ---- other clients and protocols ----------------------------------------- */

/* Drives a client that uses OpenSSL directly, at the wire's end of THERE. */
static void openssl_client_goes_on(SSL *ssl, tls_end *there) {
  for (int i = 0; i < 20 && there->step == GLI_TLS_WAITS; i++) {
    (void)SSL_do_handshake(ssl);
    there->step = gli_tls_shake_hands(there->tls);
    if (there->step == GLI_TLS_FAILED) there->code = errno;
  }
  ERR_clear_error();
}

static void assert_client_refused(int kind, int version, const char *own,
                                  const char *why) {
  tls_ends ends = ends_of_kind(kind);
  SSL_CTX *context = SSL_CTX_new(TLS_client_method());
  assert_int_equal(SSL_CTX_set_max_proto_version(context, version), 1);
  if (own != NULL) {
    assert_int_equal(
        SSL_CTX_use_certificate_file(context, own, SSL_FILETYPE_PEM), 1);
    assert_int_equal(
        SSL_CTX_use_PrivateKey_file(context, own, SSL_FILETYPE_PEM), 1);
  }
  SSL *ssl = SSL_new(context);
  SSL_set_fd(ssl, ends.end[THERE].wire);
  SSL_set_connect_state(ssl);
  openssl_client_goes_on(ssl, &ends.end[THERE]);
  ends_assert_why(&ends, THERE, why);
  SSL_free(ssl);
  SSL_CTX_free(context);
  ends_close(&ends);
}

static void other_clients_are_refused(void **state) {
  (void)state;
  assert_client_refused(0, TLS1_2_VERSION, NULL, "does not speak TLS 1.3");
  assert_client_refused(1, TLS1_2_VERSION, path_of("rank0.pem"),
                        "does not speak TLS 1.3");
  assert_client_refused(0, TLS1_3_VERSION, path_of("rank0.pem"),
                        "has a different secret, or none");
  assert_client_refused(1, TLS1_3_VERSION, NULL, "has no certificate");
}

static void plain_bytes_are_refused(void **state) {
  static const char *const texts[] = {
      "GET / HTTP/1.1\r\n\r\n", "gloo_c<.........................",
      "\x16\x03\x01\x00\x05hello", "\x17\x03\x03\x00\x05hello"};
  (void)state;
  for (size_t i = 0; i < 4 * (size_t)ENDS; i++) {
    tls_ends ends = ends_of_kind(i % 8 >= 4);
    tls_end *end = &ends.end[i % ENDS];
    const char *text = texts[i % 4];
    size_t bytes = i % 4 >= 2 ? 10 : strlen(text);
    end->step = gli_tls_shake_hands(end->tls);
    assert_int_equal(end->step, GLI_TLS_WAITS);
    assert_int_equal(send(end->wire, text, bytes, 0), bytes);
    end->step = gli_tls_shake_hands(end->tls);
    end->code = errno;
    assert_int_equal(end->step, GLI_TLS_FAILED);
    ends_assert_why(&ends, (int)(i % ENDS), "does not speak TLS");
    /* The failure is permanent. */
    assert_int_equal(gli_tls_shake_hands(end->tls), GLI_TLS_FAILED);
    ends_close(&ends);
  }
}

/* Bytes that arrive before the connecting end has spoken may not be TLS; they
 * stay in the socket. */
static void who_connects_speaks_first(void **state) {
  (void)state;
  for (int kind = 0; kind < 2; kind++) {
    tls_ends ends = ends_of_kind(kind);
    tls_end *here = &ends.end[HERE];
    char text[8];
    assert_int_equal(send(here->wire, "gloo_c<", 7, 0), 7);
    assert_int_equal(gli_tls_shake_hands(here->tls), GLI_TLS_WAITS);
    assert_false(gli_tls_pending(here->tls));
    assert_int_equal(recv(here->fd, text, sizeof text, 0), 7);
    assert_true(ends_shake_hands(&ends));
    ends_close(&ends);
  }
}

/* ---- an attacker on the wire --------------------------------------------- */

/* Returns the lengths of the two directions of a handshake. */
static void measure_handshake(int kind, size_t bytes[ENDS]) {
  tls_ends ends = ends_up(kind);
  for (int i = 0; i < ENDS; i++) bytes[i] = ends.end[i].carried;
  ends_close(&ends);
}

/* Returns true if the change was noticed. Otherwise data still
 * arrives unchanged in both directions. */
static bool flip_is_noticed(int kind, int from, size_t at, uint8_t bits) {
  tls_ends ends = ends_of_kind(kind);
  ends.end[from].flip_at = at;
  ends.end[from].flip = bits;
  bool noticed = !ends_shake_hands(&ends);
  /* Signatures vary in length, so this handshake may end before the byte. */
  ends.end[from].flip_at = SIZE_MAX;
  if (!noticed) ends_assert_talk(&ends);
  for (int i = 0; i < ENDS; i++) {
    const tls_end *end = &ends.end[i];
    if (end->step != GLI_TLS_FAILED) continue;
    assert_true(end->code == EBADMSG || end->code == ECONNRESET);
    if (end->code == EBADMSG) assert_int_not_equal(gli_tls_why(end->tls)[0], 0);
  }
  ends_close(&ends);
  return noticed;
}

/* Covers all bytes but those of record headers that TLS ignores. */
static void every_changed_byte_of_a_handshake_is_noticed(void **state) {
  static const size_t strides[] = {1, 13};
  (void)state;
  for (int kind = 0; kind < 2; kind++) {
    size_t bytes[ENDS], looked = 0, missed = 0;
    measure_handshake(kind, bytes);
    for (int from = 0; from < ENDS; from++) {
      for (size_t at = 0; at < bytes[from]; at += strides[kind]) {
        looked++;
        if (!flip_is_noticed(kind, from, at, (uint8_t)(1u << at % 8))) missed++;
      }
    }
    assert_true(looked > 200 || kind == 1);
    if (missed > looked / 50) fail_msg("%zu of %zu", missed, looked);
  }
}

static void a_handshake_that_is_cut_goes_no_further(void **state) {
  (void)state;
  for (int kind = 0; kind < 2; kind++) {
    size_t bytes[ENDS];
    measure_handshake(kind, bytes);
    for (int from = 0; from < ENDS; from++) {
      for (size_t at = 0; at < bytes[from]; at += 37) {
        tls_ends ends = ends_of_kind(kind);
        ends.end[from].cut_at = at;
        assert_false(ends_shake_hands(&ends));
        tls_end *waits = &ends.end[1 - from];
        (void)shutdown(waits->wire, SHUT_WR);
        assert_int_equal(gli_tls_shake_hands(waits->tls), GLI_TLS_FAILED);
        assert_int_equal(errno, ECONNRESET);
        ends_close(&ends);
      }
    }
  }
}

enum { SAID_BYTES = 700 };

static void say_in_records(gli_tls *tls, const uint8_t *said) {
  assert_int_equal(ends_send(tls, said, 100), 100);
  assert_int_equal(ends_send(tls, said + 100, 1), 1);
  assert_int_equal(ends_send(tls, said + 101, SAID_BYTES - 101),
                   SAID_BYTES - 101);
}

/* Receives up to `room` bytes at a time until the end or an error. Returns 0 at
 * the end, or errno; EAGAIN means that neither TLS nor the socket has data. */
static int hear_all(gli_tls *tls, size_t room, uint8_t *heard, size_t *bytes) {
  *bytes = 0;
  for (;;) {
    size_t left = SAID_BYTES + 64 - *bytes;
    ssize_t got = ends_receive(tls, heard + *bytes, room < left ? room : left);
    if (got == 0) return 0;
    if (got < 0) return errno;
    *bytes += (size_t)got;
    if (!gli_tls_pending(tls)) return EAGAIN;
  }
}

static void every_changed_byte_of_a_record_is_noticed(void **state) {
  static const size_t rooms[] = {1, 64, SAID_BYTES};
  uint8_t said[SAID_BYTES], heard[SAID_BYTES + 64];
  (void)state;
  for (size_t i = 0; i < SAID_BYTES; i++) said[i] = (uint8_t)(i * 7);
  for (size_t at = 0; at < SAID_BYTES + 3 * 22; at++) {
    tls_ends ends = ends_up(0);
    int from = at % ENDS;
    tls_end *teller = &ends.end[from], *hearer = &ends.end[1 - from];
    teller->flip_at = teller->carried + at;
    teller->flip = (uint8_t)(1u << at % 8);
    say_in_records(teller->tls, said);
    (void)ends_carry(&ends);
    size_t bytes;
    int code = hear_all(hearer->tls, rooms[at % 3], heard, &bytes);
    assert_memory_equal(heard, said, bytes);
    assert_true(bytes < SAID_BYTES);
    if (code == EAGAIN) { /* the receiver takes the record for a longer one */
      (void)shutdown(hearer->wire, SHUT_WR);
      code = hear_all(hearer->tls, SAID_BYTES, heard, &bytes);
      assert_int_equal(bytes, 0);
      assert_int_equal(code, 0);
    } else {
      assert_int_equal(code, EBADMSG);
      if (strstr(gli_tls_why(hearer->tls), "data was modified in transit") ==
          NULL)
        fail_msg("byte %zu: %s", at, gli_tls_why(hearer->tls));
      /* The failure is permanent, and sending fails, too. */
      assert_int_equal(ends_receive(hearer->tls, heard, 1), -1);
      assert_int_equal(errno, EBADMSG);
      assert_int_equal(ends_send(hearer->tls, "x", 1), -1);
    }
    ends_close(&ends);
  }
}

/* The sender of the record learns of the failure. */
static void an_alert_is_no_orderly_end(void **state) {
  (void)state;
  for (int kind = 0; kind < 2; kind++) {
    tls_ends ends = ends_up(kind);
    tls_end *teller = &ends.end[HERE], *hearer = &ends.end[THERE];
    uint8_t byte;
    teller->flip_at = teller->carried + 7;
    assert_int_equal(ends_send(teller->tls, "text", 4), 4);
    (void)ends_carry(&ends);
    assert_int_equal(ends_receive(hearer->tls, &byte, 1), -1);
    assert_int_equal(errno, EBADMSG);
    (void)ends_carry(&ends);
    assert_int_equal(ends_receive(teller->tls, &byte, 1), -1);
    assert_int_equal(errno, EBADMSG);
    assert_non_null(
        strstr(gli_tls_why(teller->tls), "rejected the connection"));
    ends_close(&ends);
  }
}

/* A record is replayed, or sent in place of another. */
static void a_replayed_record_is_noticed(void **state) {
  tls_ends ends = ends_up(0);
  tls_end *teller = &ends.end[HERE], *hearer = &ends.end[THERE];
  uint8_t record[64], byte;
  (void)state;
  assert_int_equal(ends_send(teller->tls, "a", 1), 1);
  ssize_t bytes = recv(teller->wire, record, sizeof record, 0);
  assert_true(bytes > 0);
  for (int i = 0; i < 2; i++)
    assert_int_equal(send(hearer->wire, record, (size_t)bytes, 0), bytes);
  assert_int_equal(ends_receive(hearer->tls, &byte, 1), 1);
  assert_true(gli_tls_pending(hearer->tls));
  assert_int_equal(ends_receive(hearer->tls, &byte, 1), -1);
  assert_int_equal(errno, EBADMSG);
  ends_close(&ends);
}

/* A damaged record after an intact one is found without further input. */
static void an_error_is_not_hidden_by_what_came_before(void **state) {
  tls_ends ends = ends_up(0);
  tls_end *teller = &ends.end[HERE], *hearer = &ends.end[THERE];
  uint8_t heard[100];
  (void)state;
  assert_int_equal(ends_send(teller->tls, "right", 5), 5);
  teller->flip_at = teller->carried + 5 + 5 + 17 + 9;
  assert_int_equal(ends_send(teller->tls, "wrong", 5), 5);
  (void)ends_carry(&ends);
  assert_int_equal(ends_receive(hearer->tls, heard, sizeof heard), 5);
  assert_true(gli_tls_pending(hearer->tls));
  assert_int_equal(ends_receive(hearer->tls, heard, sizeof heard), -1);
  assert_int_equal(errno, EBADMSG);
  ends_close(&ends);
}

/* ---- the end ------------------------------------------------------------- */

static void what_came_is_read_before_the_end(void **state) {
  (void)state;
  for (int orderly = 0; orderly < 2; orderly++) {
    tls_ends ends = ends_up(0);
    tls_end *teller = &ends.end[HERE], *hearer = &ends.end[THERE];
    char heard[8];
    assert_int_equal(ends_send(teller->tls, "last", 4), 4);
    if (orderly) gli_tls_shut(teller->tls);
    if (orderly) gli_tls_shut(teller->tls); /* a second call has no effect */
    (void)shutdown(teller->fd, SHUT_WR);
    (void)ends_carry(&ends);
    assert_int_equal(ends_receive(hearer->tls, heard, sizeof heard), 4);
    for (int i = 0; i < 2; i++)
      assert_int_equal(ends_receive(hearer->tls, heard, sizeof heard), 0);
    /* The other direction stays open. */
    assert_int_equal(ends_send(hearer->tls, "more", 4), 4);
    (void)ends_carry(&ends);
    assert_int_equal(ends_receive(teller->tls, heard, sizeof heard), 4);
    ends_close(&ends);
  }
}

static void what_came_is_read_after_a_write_has_failed(void **state) {
  tls_ends ends = ends_up(1);
  tls_end *teller = &ends.end[HERE], *hearer = &ends.end[THERE];
  char heard[8];
  (void)state;
  assert_int_equal(ends_send(teller->tls, "last", 4), 4);
  (void)ends_carry(&ends);
  (void)shutdown(hearer->fd, SHUT_WR); /* makes writing fail */
  assert_int_equal(ends_send(hearer->tls, "x", 1), -1);
  assert_int_equal(errno, EPIPE);
  assert_int_equal(ends_send(hearer->tls, "x", 1), -1);
  assert_int_equal(errno, EPIPE);
  gli_tls_shut(hearer->tls);
  assert_int_equal(ends_receive(hearer->tls, heard, sizeof heard), 4);
  assert_memory_equal(heard, "last", 4);
  assert_int_equal(ends_receive(hearer->tls, heard, sizeof heard), -1);
  assert_int_equal(errno, EAGAIN);
  ends_close(&ends);
}

static void nothing_to_send_is_sent_at_once(void **state) {
  tls_ends ends = ends_up(0);
  uint8_t byte;
  const struct iovec none[3] = {{&byte, 0}, {NULL, 0}, {&byte, 0}};
  (void)state;
  assert_int_equal(gli_tls_send(ends.end[HERE].tls, none, 3), 0);
  assert_int_equal(gli_tls_send(ends.end[HERE].tls, none, 0), 0);
  assert_int_equal(ends_carry(&ends), 0);
  assert_int_equal(ends_receive(ends.end[THERE].tls, &byte, 1), -1);
  assert_int_equal(errno, EAGAIN);
  ends_close(&ends);
}

/* ---- OpenSSL's error queue, forks, threads ------------------------------- */

static void no_error_is_left_behind(void **state) {
  (void)state;
  ERR_clear_error();
  both_kinds_connect(state);
  another_key_is_refused_at_both_ends(state);
  bad_certificates_are_refused_and_both_say_why(state);
  assert_int_equal(ERR_peek_error(), 0);
}

/* The program's errors stay in the queue, except before a handshake or the
 * loading of certificates, which clear it. */
static void errors_of_the_program_stay_its_own(void **state) {
  tls_ends ends = ends_up(1);
  tls_end *teller = &ends.end[HERE], *hearer = &ends.end[THERE];
  uint8_t byte;
  (void)state;
  ERR_clear_error();
  ERR_raise(ERR_LIB_USER, 7);
  unsigned long own = ERR_peek_last_error();
  assert_int_not_equal(own, 0);
  ends_assert_talk(&ends);
  assert_false(gli_tls_is_host(hearer->tls, "host", &(gli_endpoint){0}) &&
               gli_tls_is_host(teller->tls, "host", &(gli_endpoint){0}));
  gli_tls_shut(hearer->tls);
  teller->flip_at = teller->carried + 9;
  assert_int_equal(ends_send(teller->tls, "x", 1), 1);
  (void)ends_carry(&ends);
  assert_int_equal(ends_receive(teller->tls, &byte, 1), 0);
  assert_int_equal(ends_receive(hearer->tls, &byte, 1), -1);
  assert_int_equal(errno, EBADMSG);
  assert_int_equal(ERR_peek_last_error(), own);
  ends_close(&ends);
  assert_int_equal(ERR_get_error(), own);
  assert_int_equal(ERR_get_error(), 0);
}

static void a_child_destroys_what_its_parent_made(void **state) {
  (void)state;
  for (int kind = 0; kind < 2; kind++) {
    tls_ends ends = ends_up(kind);
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      ends_close(&ends);
      tls_ends own = ends_of_kind(kind);
      bool good = ends_shake_hands(&own);
      ends_close(&own);
      _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    ends_assert_talk(&ends);
    ends_close(&ends);
  }
}

typedef struct crowd {
  gli_tls_settings *here, *there;
  int failed;
} crowd;

static void *connect_many(void *argument) {
  crowd *c = argument;
  gli_key key = ends_key(3);
  for (int i = 0; i < 20; i++) {
    tls_ends ends = ends_open(c->here, c->there, &key, &key);
    uint8_t byte;
    if (!ends_shake_hands(&ends) ||
        ends_send(ends.end[HERE].tls, "x", 1) != 1 ||
        (ends_carry(&ends) == 0) ||
        ends_receive(ends.end[THERE].tls, &byte, 1) != 1)
      c->failed++;
    ends_close(&ends);
  }
  return NULL;
}

static void threads_connect_at_once(void **state) {
  enum { THREADS = 6 };
  pthread_t threads[THREADS];
  crowd crowds[THREADS];
  gli_tls_settings *here = settings_of("rank0.pem"), *secret = ends_by_secret();
  (void)state;
  for (int i = 0; i < THREADS; i++) {
    gli_tls_settings *both = i % 2 != 0 ? here : secret;
    crowds[i] = (crowd){both, both, 0};
    assert_int_equal(
        pthread_create(&threads[i], NULL, connect_many, &crowds[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(crowds[i].failed, 0);
  }
  gli_tls_settings_release(here);
  gli_tls_settings_release(secret);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_kinds_connect),
      cmocka_unit_test(another_key_is_refused_at_both_ends),
      cmocka_unit_test(the_kinds_do_not_mix),
      cmocka_unit_test(bad_certificates_are_refused_and_both_say_why),
      cmocka_unit_test(certificates_are_of_whom_they_name),
      cmocka_unit_test(by_the_secret_nobody_is_asked_for_a_name),
      cmocka_unit_test(other_clients_are_refused),
      cmocka_unit_test(plain_bytes_are_refused),
      cmocka_unit_test(who_connects_speaks_first),
      cmocka_unit_test(every_changed_byte_of_a_handshake_is_noticed),
      cmocka_unit_test(a_handshake_that_is_cut_goes_no_further),
      cmocka_unit_test(every_changed_byte_of_a_record_is_noticed),
      cmocka_unit_test(an_alert_is_no_orderly_end),
      cmocka_unit_test(a_replayed_record_is_noticed),
      cmocka_unit_test(an_error_is_not_hidden_by_what_came_before),
      cmocka_unit_test(what_came_is_read_before_the_end),
      cmocka_unit_test(what_came_is_read_after_a_write_has_failed),
      cmocka_unit_test(nothing_to_send_is_sent_at_once),
      cmocka_unit_test(no_error_is_left_behind),
      cmocka_unit_test(errors_of_the_program_stay_its_own),
      cmocka_unit_test(a_child_destroys_what_its_parent_made),
      cmocka_unit_test(threads_connect_at_once),
  };
  signal(SIGPIPE, SIG_DFL);
  return cmocka_run_group_tests(tests, set_up_files, tear_down_files);
}
