/* Shared memory between processes of Windows: messages, wake-ups, kills, and
 * peers that offer what they should not. The program starts itself as the
 * peer. */
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "core/descriptor.h"
#include "ends.h"
#include "memory/sealed.h"
#include "transport/auto.h"
#include "transport_shm/shm.h"

static const char *self_path;

/* system_windows.c calls this function instead (meson.build), because wine has
 * no other users. */
#undef gli_windows_is_own_user
bool gli_windows_is_own_user(HANDLE process);
static bool all_are_others;
bool test_is_own_user(HANDLE process) {
  return !all_are_others && gli_windows_is_own_user(process);
}

/* ---- the other process --------------------------------------------------- */

static void print_address(const gli_address *address) {
  for (int i = 0; i < address->bytes; i++)
    (void)printf("%02x", (unsigned)address->data[i]);
  (void)printf("\n");
  (void)fflush(stdout);
}

static bool read_address(const char *text, gli_address *address) {
  size_t n = strspn(text, "0123456789abcdef") / 2;
  if (n == 0 || n > GLI_ADDRESS_MAX) return false;
  address->bytes = (uint16_t)n;
  for (size_t i = 0; i < n; i++) {
    unsigned byte;
    if (sscanf(text + 2 * i, "%2x", &byte) != 1) return false;
    address->data[i] = (uint8_t)byte;
  }
  return true;
}

/* Sleeps for ten seconds between messages, which the peer's RING ends. */
static void wait_for(end *e, const int *counter, int value) {
  while (*counter < value && e->n_failed == 0)
    if (e->ops->poll(e->t) == 0) e->ops->sleep(e->t, INT64_C(10000000000));
}

/* Replies to each message until "stop". */
static int reply(const gli_address *to) {
  end e;
  gli_address here;
  end_open(&e, &gli_transport_shm, 1);
  e.config.address = *to;
  e.ops->address(e.t, &here);
  print_address(&here);
  for (int i = 0; i < END_MESSAGES && e.n_failed == 0; i++) {
    wait_for(&e, &e.n_received, i + 1);
    if (strcmp(e.texts[i], "stop") == 0) break;
    end_send(&e, e.texts[i]);
  }
  end_close(&e);
  return 0;
}

static int memory_of(size_t bytes) {
  const gli_sealed_want want = {
      .bytes = bytes, .reserved = bytes, .most_percent = 100};
  const char *what;
  void *memory;
  int fd;
  assert_int_equal(gli_sealed_make(&want, &fd, &memory, &what), 0);
  gli_sealed_unmap(memory, bytes);
  return fd;
}

static gli_shm_note hello_with(int ring, int page) {
  return (gli_shm_note){.version = GLI_SHM_VERSION,
                        .say = GLI_SHM_HELLO,
                        .from = 1,
                        .to = 0,
                        .key = 100,
                        .data_bytes = 65536,
                        .chunk = 2048,
                        .fds = {ring, page}};
}

/* Sends a good HELLO, and prints the answer. */
static int offer(const gli_address *to) {
  gli_shm_endpoint there;
  gli_shm_note answer;
  gli_shm_received got;
  if (!gli_shm_endpoint_decode(to, &there)) return 1;
  int fd = gli_shm_connect(&there);
  if (fd < 0) return 1;
  const gli_shm_note hello = hello_with(memory_of(gli_shm_ring_bytes(65536)),
                                        memory_of(GLI_SHM_PAGE_BYTES));
  if (gli_shm_note_send(fd, &hello) != 0) return 1;
  while ((got = gli_shm_note_receive(fd, &answer)) == GLI_SHM_GOT_NOTHING)
    uv_sleep(1);
  (void)printf("%d\n", got == GLI_SHM_GOT_NOTE ? (int)answer.say : 0);
  (void)fflush(stdout);
  return 0;
}

/* ---- starting it --------------------------------------------------------- */

typedef struct child {
  HANDLE process, output;
} child;

/* Starts this program. */
static child start(const char *what, const gli_address *to) {
  child made;
  HANDLE end;
  char line[4 * GLI_ADDRESS_MAX + 1024];
  int n = snprintf(line, sizeof line, "\"%s\" %s ", self_path, what);
  for (int i = 0; i < to->bytes; i++)
    n += snprintf(line + n, sizeof line - (size_t)n, "%02x",
                  (unsigned)to->data[i]);
  SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited,
                                   .bInheritHandle = TRUE};
  assert_true(CreatePipe(&made.output, &end, &inherited, 0));
  (void)SetHandleInformation(made.output, HANDLE_FLAG_INHERIT, 0);
  STARTUPINFOA how = {.cb = sizeof how,
                      .dwFlags = STARTF_USESTDHANDLES,
                      .hStdOutput = end,
                      .hStdError = GetStdHandle(STD_ERROR_HANDLE)};
  PROCESS_INFORMATION is;
  bool started =
      CreateProcessA(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &how, &is);
  if (!started) fail_msg("cannot start %s: %lu", line, GetLastError());
  (void)CloseHandle(end);
  (void)CloseHandle(is.hThread);
  made.process = is.hProcess;
  return made;
}

/* Reads a line that the child prints, and polls an end meanwhile. */
static void read_line(const child *from, end *e, char *line, size_t room) {
  size_t n = 0;
  for (int i = 0; i < 20000 && n + 1 < room; i++) {
    DWORD there = 0, got = 0;
    if (!PeekNamedPipe(from->output, NULL, 0, NULL, &there, NULL)) break;
    if (there == 0) {
      if (e->ops->poll(e->t) == 0) uv_sleep(1);
    } else if (ReadFile(from->output, line + n, 1, &got, NULL) && got == 1) {
      if (line[n] == '\n') break;
      if (line[n] != '\r') n++;
    }
  }
  line[n] = '\0';
}

static void end_child(child *of) {
  assert_int_equal(WaitForSingleObject(of->process, 20000), WAIT_OBJECT_0);
  (void)CloseHandle(of->process);
  (void)CloseHandle(of->output);
}

/* ---- messages ------------------------------------------------------------ */

typedef struct scene {
  end end;
  child child;
} scene;

static int set_up(void **state) {
  scene *s = calloc(1, sizeof *s);
  assert_non_null(s);
  gli_address here;
  char line[2 * GLI_ADDRESS_MAX + 8];
  gloo_error error;
  end_open(&s->end, &gli_transport_shm, 0);
  s->end.ops->address(s->end.t, &here);
  s->child = start("reply", &here);
  read_line(&s->child, &s->end, line, sizeof line);
  assert_true(read_address(line, &s->end.config.address));
  if (end_connect(&s->end, &error) != GLOO_OK) fail_msg("%s", error.message);
  end_send(&s->end, "first");
  end_until(&s->end, &s->end.n_received, 1);
  *state = s;
  return 0;
}

static int tear_down(void **state) {
  scene *s = *state;
  end_close(&s->end);
  end_child(&s->child);
  free(s);
  return 0;
}

static void processes_exchange_messages(void **state) {
  scene *s = *state;
  char text[END_BYTES];
  memset(text, 'x', sizeof text);
  text[END_BYTES - 1] = '\0';
  assert_string_equal(s->end.texts[0], "first");
  end_send(&s->end, text);
  end_send(&s->end, "short");
  end_until(&s->end, &s->end.n_received, 3);
  assert_string_equal(s->end.texts[1], text);
  assert_string_equal(s->end.texts[2], "short");
  end_send(&s->end, "stop");
}

/* Both sleep until the other has sent. */
static void sleeping_processes_are_woken(void **state) {
  scene *s = *state;
  enum { TIMES = 20 };
  const uint64_t limit_ns = UINT64_C(9000000000), began = uv_hrtime();
  for (int i = 0; i < TIMES && uv_hrtime() - began < limit_ns; i++) {
    uv_sleep(20); /* the child falls asleep */
    end_send(&s->end, "wake up");
    wait_for(&s->end, &s->end.n_received, i + 2);
  }
  assert_true(uv_hrtime() - began < limit_ns);
  assert_int_equal(s->end.n_received, TIMES + 1);
  end_send(&s->end, "stop");
}

static void killed_process_is_named(void **state) {
  scene *s = *state;
  uint64_t began = uv_hrtime();
  assert_true(TerminateProcess(s->child.process, 9));
  wait_for(&s->end, &s->end.n_failed, 1);
  assert_int_equal(s->end.n_failed, 1);
  assert_int_equal(s->end.cause.status, GLOO_ERR_PEER);
  assert_int_equal(s->end.cause.rank, 1);
  assert_non_null(strstr(s->end.cause.message, "may have been killed"));
  assert_true(uv_hrtime() - began < UINT64_C(10000000000));
}

/* A process that was killed before the first message. */
static void process_that_is_gone_is_named(void **state) {
  (void)state;
  end e;
  gli_address here;
  char line[2 * GLI_ADDRESS_MAX + 8];
  gloo_error error;
  end_open(&e, &gli_transport_shm, 0);
  e.ops->address(e.t, &here);
  child other = start("reply", &here);
  read_line(&other, &e, line, sizeof line);
  assert_true(read_address(line, &e.config.address));
  assert_true(TerminateProcess(other.process, 9));
  end_child(&other);
  assert_int_equal(end_connect(&e, &error), GLOO_OK);
  end_until(&e, &e.n_failed, 1);
  assert_int_equal(e.cause.rank, 1);
  assert_non_null(strstr(e.cause.message, "no process listens"));
  end_close(&e);
}

/* ---- what stays ---------------------------------------------------------- */

/* Counts views of sections without files in this process. */
static int count_views(void) {
  MEMORY_BASIC_INFORMATION is;
  int n = 0;
  for (char *at = NULL; VirtualQuery(at, &is, sizeof is) == sizeof is;
       at = (char *)is.BaseAddress + is.RegionSize)
    if (is.Type == MEM_MAPPED && is.State == MEM_COMMIT &&
        is.AllocationBase == is.BaseAddress && is.Protect == PAGE_READWRITE)
      n++;
  return n;
}

/* Counts handles of sections, by mapping each. */
static int count_sections(void) {
  enum { HANDLES = 0x4000 };
  int n = 0;
  for (uintptr_t i = 4; i < HANDLES; i += 4) {
    void *view = MapViewOfFile((HANDLE)i, FILE_MAP_READ | FILE_MAP_WRITE, 0, 0,
                               GLI_SHM_PAGE_BYTES);
    if (view != NULL) n++;
    if (view != NULL) (void)UnmapViewOfFile(view);
  }
  return n;
}

static void exchange_and_close(void) {
  end ends[2];
  gloo_error error;
  ends_open(ends, &gli_transport_shm);
  assert_int_equal(end_connect(&ends[0], &error), GLOO_OK);
  end_send(&ends[0], "first");
  ends_until(ends, &ends[1].n_received, 1);
  ends_close(ends);
}

static void closed_pairs_leave_no_sections(void **state) {
  (void)state;
  exchange_and_close();
  int views = count_views(), sections = count_sections();
  for (int i = 0; i < 5; i++) exchange_and_close();
  assert_int_equal(count_views(), views);
  assert_int_equal(count_sections(), sections);
}

/* ---- offers -------------------------------------------------------------- */

/* Returns the answer of a rank without a pair, or 0 if it hangs up. */
static int answer_to(int ring, int page) {
  end ends[2];
  gli_shm_endpoint there;
  gli_shm_note answer;
  gli_shm_received got = GLI_SHM_GOT_NOTHING;
  ends_open(ends, &gli_transport_shm);
  assert_true(gli_shm_endpoint_decode(&ends[1].config.address, &there));
  int fd = gli_shm_connect(&there);
  assert_true(fd >= 0);
  const gli_shm_note hello = hello_with(ring, page);
  assert_int_equal(gli_shm_note_send(fd, &hello), 0);
  for (int i = 0; i < 5000 && got == GLI_SHM_GOT_NOTHING; i++) {
    ends_poll(ends, 1);
    got = gli_shm_note_receive(fd, &answer);
  }
  assert_int_not_equal(got, GLI_SHM_GOT_NOTHING);
  int say = got == GLI_SHM_GOT_NOTE ? (int)answer.say : 0;
  gli_shm_note_close(&answer);
  close(fd);
  ends_close(ends);
  return say;
}

/* Returns memory that another user owns, or -1 where the system refuses to make
 * some. */
static int section_of_others(size_t bytes) {
  SECURITY_DESCRIPTOR descriptor;
  SECURITY_ATTRIBUTES with = {sizeof with, &descriptor, FALSE};
  uint8_t owner[SECURITY_MAX_SID_SIZE];
  DWORD room = sizeof owner;
  assert_true(CreateWellKnownSid(WinNetworkServiceSid, NULL, owner, &room));
  assert_true(
      InitializeSecurityDescriptor(&descriptor, SECURITY_DESCRIPTOR_REVISION));
  assert_true(SetSecurityDescriptorOwner(&descriptor, owner, FALSE));
  assert_true(SetSecurityDescriptorDacl(&descriptor, TRUE, NULL, FALSE));
  HANDLE made = CreateFileMappingW(INVALID_HANDLE_VALUE, &with, PAGE_READWRITE,
                                   0, (DWORD)bytes, NULL);
  return made != NULL ? gli_windows_keep_section(made) : -1;
}

static void memory_of_others_is_refused(void **state) {
  (void)state;
  int ring = section_of_others(gli_shm_ring_bytes(65536));
  int page = memory_of(GLI_SHM_PAGE_BYTES);
  if (ring < 0) skip();
  assert_int_equal(answer_to(ring, page), GLI_SHM_DECLINED);
  close(ring);
  close(page);
}

/* A stranger that gets a note cannot use it for a connection of its own. */
static void note_of_another_connection_is_refused(void **state) {
  (void)state;
  end ends[2];
  gli_shm_endpoint there, elsewhere = {.user = 0};
  gli_shm_note answer;
  gli_shm_received got = GLI_SHM_GOT_NOTHING;
  uint8_t note[512];
  ends_open(ends, &gli_transport_shm);
  assert_true(gli_shm_endpoint_decode(&ends[1].config.address, &there));
  int ring = memory_of(gli_shm_ring_bytes(65536));
  int page = memory_of(GLI_SHM_PAGE_BYTES);
  const gli_shm_note hello = hello_with(ring, page);
  int listener = gli_shm_listen(&elsewhere);
  int from = gli_shm_connect(&elsewhere), to = gli_shm_accept(listener);
  assert_true(listener >= 0 && from >= 0 && to >= 0);
  assert_int_equal(gli_shm_note_send(from, &hello), 0);
  ssize_t bytes = -1;
  for (int i = 0; i < 5000 && bytes < 0; i++) {
    bytes = gli_socket_receive(to, note, sizeof note);
    if (bytes < 0) uv_sleep(1);
  }
  int fd = gli_shm_connect(&there);
  assert_true(bytes > 0 && fd >= 0);
  assert_int_equal(gli_socket_send(fd, note, (size_t)bytes), bytes);
  for (int i = 0; i < 5000 && got == GLI_SHM_GOT_NOTHING; i++) {
    ends_poll(ends, 1);
    got = gli_shm_note_receive(fd, &answer);
  }
  assert_int_equal(got, GLI_SHM_GOT_NOTE);
  assert_int_equal(answer.say, GLI_SHM_DECLINED);
  const int fds[] = {ring, page, listener, from, to, fd};
  for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) close(fds[i]);
  ends_close(ends);
}

static int section_of(HANDLE file, DWORD kind, size_t bytes) {
  SECURITY_ATTRIBUTES *own;
  assert_true(gli_windows_private(0600, &own));
  HANDLE made = CreateFileMappingW(file, own, PAGE_READWRITE | kind, 0,
                                   (DWORD)bytes, NULL);
  assert_non_null(made);
  return gli_windows_keep_section(made);
}

static void sections_are_checked_before_they_are_used(void **state) {
  (void)state;
  size_t bytes = gli_shm_ring_bytes(65536);
  wchar_t directory[MAX_PATH + 1], path[MAX_PATH + 1];
  assert_true(GetTempPathW(MAX_PATH + 1, directory) != 0 &&
              GetTempFileNameW(directory, L"glo", 0, path) != 0);
  HANDLE file = CreateFileW(path, GENERIC_READ | GENERIC_WRITE, 0, NULL,
                            CREATE_ALWAYS, FILE_FLAG_DELETE_ON_CLOSE, NULL);
  assert_true(file != INVALID_HANDLE_VALUE);
  int page = memory_of(GLI_SHM_PAGE_BYTES);
  int rings[] = {
      memory_of(bytes),
      section_of(file, 0, bytes), /* fails where its disk does */
      section_of(INVALID_HANDLE_VALUE, SEC_RESERVE, bytes), /* has no pages */
      memory_of(bytes - GLI_SHM_PAGE_BYTES),
      memory_of(bytes + GLI_SHM_PAGE_BYTES),
      page,
      gli_windows_keep_section(CreateEventW(NULL, TRUE, FALSE, NULL)),
      GLI_MARK_SECTION | 0xfff0, /* a handle that does not exist */
      GLI_MARK_SECTION | 0xfff1,
  };
  enum { RINGS = sizeof rings / sizeof rings[0], FIRST_NONE = RINGS - 2 };
  int sections = count_sections(), views = count_views();
  for (int i = 0; i < RINGS; i++) {
    int expected = i == 0           ? GLI_SHM_ACCEPTED
                   : i < FIRST_NONE ? GLI_SHM_DECLINED
                                    : 0;
    if (answer_to(rings[i], page) != expected) fail_msg("ring %d", i);
    if (rings[i] != page && i > 0 && answer_to(rings[0], rings[i]) != expected)
      fail_msg("page %d", i);
  }
  assert_int_equal(count_sections(), sections);
  assert_int_equal(count_views(), views);
  for (int i = 0; i < FIRST_NONE; i++)
    if (rings[i] != page) close(rings[i]);
  close(page);
  (void)CloseHandle(file);
}

/* ---- auto ---------------------------------------------------------------- */

static void auto_takes_shared_memory(void **state) {
  (void)state;
  end ends[2];
  gloo_error error;
  ends_open(ends, &gli_transport_auto);
  assert_int_equal(end_connect(&ends[0], &error), GLOO_OK);
  end_send(&ends[0], "first");
  ends_until(ends, &ends[1].n_received, 1);
  for (int i = 0; i < 2; i++)
    assert_int_equal(((const gli_auto_pair *)(const void *)ends[i].pair)->via,
                     GLI_AUTO_SHM);
  ends_close(ends);
}

/* ---- users --------------------------------------------------------------- */

static int answer_to_process(void) {
  end e;
  gli_address here;
  char line[32];
  end_open(&e, &gli_transport_shm, 0);
  e.ops->address(e.t, &here);
  e.config.address = here;
  child other = start("offer", &here);
  read_line(&other, &e, line, sizeof line);
  end_child(&other);
  end_close(&e);
  return atoi(line);
}

static void process_of_this_user_is_accepted(void **state) {
  (void)state;
  assert_int_equal(answer_to_process(), GLI_SHM_ACCEPTED);
}

/* Tells the library of the test that each process is of another user. */
static void process_of_another_user_is_refused(void **state) {
  (void)state;
  all_are_others = true;
  int answer = answer_to_process();
  all_are_others = false;
  assert_int_equal(answer, GLI_SHM_DECLINED);
}

int main(int argc, char **argv) {
  gli_address to;
  self_path = argv[0];
  if (argc == 3 && read_address(argv[2], &to))
    return strcmp(argv[1], "offer") == 0 ? offer(&to) : reply(&to);
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(processes_exchange_messages),
      TEST(sleeping_processes_are_woken),
      TEST(killed_process_is_named),
      cmocka_unit_test(process_that_is_gone_is_named),
      cmocka_unit_test(closed_pairs_leave_no_sections),
      cmocka_unit_test(sections_are_checked_before_they_are_used),
      cmocka_unit_test(memory_of_others_is_refused),
      cmocka_unit_test(note_of_another_connection_is_refused),
      cmocka_unit_test(auto_takes_shared_memory),
      cmocka_unit_test(process_of_this_user_is_accepted),
      cmocka_unit_test(process_of_another_user_is_refused),
  };
  if (argc == 2) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
