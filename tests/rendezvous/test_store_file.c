/* Conditions of a file store only: other jobs, other users, full disks. */
#define _XOPEN_SOURCE 700 /* chown, symlink */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "children.h"
#include "kinds.h"

static char directory[64];
static int descriptors_before;

static int setup(void **state) {
  (void)state;
  descriptors_before = test_open_descriptors();
  test_directory_name(directory);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  test_directory_remove(directory);
  return test_open_descriptors() == descriptors_before ? 0 : -1;
}

static gloo_status open_file(const char *path, const char *job, uint64_t epoch,
                             gloo_store **store, gloo_error *error) {
  gloo_store_file_options options = GLOO_STORE_FILE_OPTIONS_INIT;
  options.directory = path;
  options.job = job;
  options.epoch = epoch;
  return gloo_store_file_create(&options, store, error);
}

static void expect_message(const gloo_error *error, const char *word) {
  if (strstr(error->message, word) == NULL)
    fail_msg("'%s' is not in: %s", word, error->message);
}

static void the_directory_is_made_private(void **state) {
  gloo_store *store;
  struct stat info;
  char path[128];
  (void)state;
  assert_int_equal(open_file(directory, NULL, 0, &store, NULL), GLOO_OK);
  assert_int_equal(stat(directory, &info), 0);
  assert_int_equal(info.st_mode & 0777, 0700);
  assert_int_equal(gloo_store_set(store, "key", "v", 1, NULL), GLOO_OK);
  snprintf(path, sizeof(path), "%s/k-key", directory);
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(info.st_mode & 0777, 0600);
  gloo_store_destroy(store);
}

static void names_are_those_of_the_program(void **state) {
  static const char name[] = "h\xc3\xb6hle \xe6\xb4\x9e\xe7\xaa\x9f";
  char path[128];
  gloo_store *store;
  bool found = false;
  (void)state;
  assert_int_equal(mkdir(directory, 0700), 0);
  snprintf(path, sizeof path, "%s/%s", directory, name);
  assert_int_equal(open_file(path, NULL, 0, &store, NULL), GLOO_OK);
  gloo_store_destroy(store);
  DIR *all = opendir(directory);
  assert_non_null(all);
  for (const struct dirent *e; (e = readdir(all)) != NULL;)
    found |= strcmp(e->d_name, name) == 0;
  closedir(all);
  assert_true(found);
}

enum { ADDERS = 4, ADDS = 100 };

static void add_often(void *unused) {
  gloo_store *store;
  int64_t sum;
  (void)unused;
  if (open_file(directory, NULL, 0, &store, NULL) != GLOO_OK) return;
  for (int i = 0; i < ADDS; i++)
    (void)gloo_store_add(store, "sum", 1, &sum, NULL);
  gloo_store_destroy(store);
}

static void one_opening_at_a_time_changes_a_key(void **state) {
  uv_thread_t threads[ADDERS];
  gloo_store *store;
  int64_t sum;
  (void)state;
  assert_int_equal(open_file(directory, NULL, 0, &store, NULL), GLOO_OK);
  for (int i = 0; i < ADDERS; i++)
    assert_int_equal(uv_thread_create(&threads[i], add_often, NULL), 0);
  for (int i = 0; i < ADDERS; i++) uv_thread_join(&threads[i]);
  assert_int_equal(gloo_store_add(store, "sum", 0, &sum, NULL), GLOO_OK);
  assert_int_equal(sum, ADDERS * ADDS);
  gloo_store_destroy(store);
}

static void a_second_opening_sees_the_same_keys(void **state) {
  gloo_store *one, *two;
  gloo_value value;
  char slashes[80];
  (void)state;
  snprintf(slashes, sizeof(slashes), "%s//", directory);
  assert_int_equal(open_file(directory, "j", 3, &one, NULL), GLOO_OK);
  assert_int_equal(gloo_store_set(one, "key", "v", 1, NULL), GLOO_OK);
  gloo_store_destroy(one);
  assert_int_equal(open_file(slashes, "j", 3, &two, NULL), GLOO_OK);
  assert_int_equal(gloo_store_get(two, "key", GLOO_TIMEOUT_NOW, &value, NULL),
                   GLOO_OK);
  free(value.data);
  gloo_store_destroy(two);
}

static void another_job_or_epoch_is_refused(void **state) {
  gloo_store *store;
  gloo_error e;
  (void)state;
  assert_int_equal(open_file(directory, "monday", 1, &store, NULL), GLOO_OK);
  assert_int_equal(open_file(directory, "tuesday", 1, &store, &e),
                   GLOO_ERR_STALE);
  expect_message(&e, "job 'monday', epoch 1");
  expect_message(&e, "job 'tuesday', epoch 1");
  expect_message(&e, directory);
  expect_message(&e, "remove the directory");
  assert_int_equal(open_file(directory, "monday", 2, &store, &e),
                   GLOO_ERR_STALE);
  expect_message(&e, "job 'monday', epoch 2");
  assert_int_equal(open_file(directory, "mon\nday", 1, &store, &e),
                   GLOO_ERR_STALE);
  expect_message(&e, "mon\\x0aday");
  assert_int_equal(open_file(directory, NULL, 1, &store, &e), GLOO_ERR_STALE);
  gloo_store_destroy(store);
}

static void a_marker_of_something_else_is_refused(void **state) {
  static const char *const markers[] = {"", "hello", "gloo_c file store 2\n",
                                        "gloo_c file store 1\nepoch x\njob \n"};
  gloo_store *store;
  gloo_error e;
  char path[128];
  (void)state;
  snprintf(path, sizeof(path), "%s/gloo-store", directory);
  assert_int_equal(mkdir(directory, 0700), 0);
  for (size_t i = 0; i < sizeof(markers) / sizeof(markers[0]); i++) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(markers[i], file);
    fclose(file);
    assert_int_equal(open_file(directory, "", 0, &store, &e), GLOO_ERR_STALE);
    expect_message(&e, directory);
  }
  /* A marker that is far too long is not read. */
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  for (int i = 0; i < 100000; i++) fputc('x', file);
  fclose(file);
  assert_int_equal(open_file(directory, "", 0, &store, &e), GLOO_ERR_IO);
  expect_message(&e, "gloo-store");
}

static void the_longest_job_name_works(void **state) {
  gloo_store *store;
  gloo_error e;
  char job[1026];
  (void)state;
  memset(job, 'j', sizeof(job) - 1);
  job[1025] = '\0';
  assert_int_equal(open_file(directory, job, UINT64_MAX, &store, &e),
                   GLOO_ERR_INVALID);
  expect_message(&e, "1025");
  job[1024] = '\0';
  assert_int_equal(open_file(directory, job, UINT64_MAX, &store, &e), GLOO_OK);
  gloo_store_destroy(store);
  assert_int_equal(open_file(directory, job, UINT64_MAX, &store, &e), GLOO_OK);
  gloo_store_destroy(store);
  job[1023] = 'k';
  assert_int_equal(open_file(directory, job, UINT64_MAX, &store, &e),
                   GLOO_ERR_STALE);
}

static void directories_that_cannot_be_used_are_named(void **state) {
  gloo_store *store;
  gloo_error e;
  char path[128];
  (void)state;
  assert_int_equal(open_file(NULL, "", 0, &store, &e), GLOO_ERR_INVALID);
  assert_int_equal(open_file("", "", 0, &store, &e), GLOO_ERR_INVALID);
  assert_int_equal(open_file(directory, "", 0, NULL, &e), GLOO_ERR_INVALID);
  assert_int_equal(gloo_store_file_create(NULL, &store, &e), GLOO_ERR_INVALID);
  expect_message(&e, "directory");
  snprintf(path, sizeof(path), "%s/no/such", directory);
  assert_int_equal(open_file(path, "", 0, &store, &e), GLOO_ERR_IO);
  expect_message(&e, path);
  expect_message(&e, "no such file or directory");
  assert_int_equal(open_file("/dev/null", "", 0, &store, &e), GLOO_ERR_IO);
  expect_message(&e, "/dev/null");
}

static void a_symbolic_link_is_refused(void **state) {
  gloo_store *store;
  gloo_error e;
  char target[64], slashed[80];
  (void)state;
  test_directory_name(target);
  assert_int_equal(mkdir(target, 0700), 0);
  assert_int_equal(symlink(target, directory), 0);
  assert_int_equal(open_file(directory, "", 0, &store, &e), GLOO_ERR_INVALID);
  expect_message(&e, "symbolic link");
  snprintf(slashed, sizeof(slashed), "%s/", directory);
  assert_int_equal(open_file(slashed, "", 0, &store, &e), GLOO_ERR_INVALID);
  expect_message(&e, "symbolic link");
  test_directory_remove(target);
}

static void a_directory_that_others_may_write_is_refused(void **state) {
  gloo_store *store;
  gloo_error e;
  (void)state;
  assert_int_equal(mkdir(directory, 0700), 0);
  assert_int_equal(chmod(directory, 0702), 0);
  assert_int_equal(open_file(directory, "", 0, &store, &e), GLOO_ERR_INVALID);
  expect_message(&e, directory);
  expect_message(&e, "0702");
}

static void a_directory_of_another_user_is_refused(void **state) {
  gloo_store *store;
  gloo_error e;
  struct stat root;
  (void)state;
  assert_int_equal(stat("/", &root), 0);
  if (geteuid() != 0 && root.st_uid == geteuid()) {
    print_message("# skipped: this user owns the root directory\n");
    skip();
  } else if (geteuid() != 0) {
    /* chown() needs root; the root directory belongs to another user, too. */
    assert_int_equal(open_file("/", "", 0, &store, &e), GLOO_ERR_INVALID);
  } else {
    assert_int_equal(mkdir(directory, 0700), 0);
    assert_int_equal(chown(directory, 12345, (gid_t)-1), 0);
    assert_int_equal(open_file(directory, "", 0, &store, &e), GLOO_ERR_INVALID);
    expect_message(&e, directory);
    expect_message(&e, "12345");
  }
  expect_message(&e, "belongs to user");
}

static void a_directory_that_vanishes_is_an_error(void **state) {
  gloo_store *store;
  gloo_error e;
  (void)state;
  assert_int_equal(open_file(directory, "", 0, &store, &e), GLOO_OK);
  test_directory_remove(directory);
  assert_int_equal(gloo_store_set(store, "key", "v", 1, &e), GLOO_ERR_IO);
  expect_message(&e, directory);
  gloo_store_destroy(store);
}

/* Another process puts something else in place of a key's file. */
static void only_regular_files_are_values(void **state) {
  gloo_store *store;
  gloo_error e;
  gloo_value value;
  char path[128];
  (void)state;
  assert_int_equal(open_file(directory, "", 0, &store, &e), GLOO_OK);
  snprintf(path, sizeof(path), "%s/k-link", directory);
  assert_int_equal(symlink("/etc/passwd", path), 0);
  assert_int_equal(gloo_store_get(store, "link", GLOO_TIMEOUT_NOW, &value, &e),
                   GLOO_ERR_IO);
  expect_message(&e, "'link'");
  snprintf(path, sizeof(path), "%s/k-pipe", directory);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_int_equal(gloo_store_get(store, "pipe", GLOO_TIMEOUT_NOW, &value, &e),
                   GLOO_ERR_IO);
  snprintf(path, sizeof(path), "%s/k-huge", directory);
  int fd = open(path, O_CREAT | O_WRONLY, 0600);
  assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
  close(fd);
  assert_int_equal(gloo_store_get(store, "huge", GLOO_TIMEOUT_NOW, &value, &e),
                   GLOO_ERR_IO);
  gloo_store_destroy(store);
}

static int files_in_directory(void) {
  DIR *stream = opendir(directory);
  int n = 0;
  assert_non_null(stream);
  while (readdir(stream) != NULL) n++;
  closedir(stream);
  return n;
}

/* A limit on file sizes acts as a full disk. */
static void a_full_disk_is_an_error_and_keeps_the_old_value(void **state) {
  struct rlimit before, limit;
  gloo_store *store;
  gloo_error e;
  gloo_value value;
  static char big[100000];
  (void)state;
  assert_int_equal(open_file(directory, "", 0, &store, &e), GLOO_OK);
  assert_int_equal(gloo_store_set(store, "key", "old", 3, &e), GLOO_OK);
  int files = files_in_directory();
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  limit = before;
  limit.rlim_cur = 4096;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  gloo_status set = gloo_store_set(store, "key", big, sizeof(big), &e);
  gloo_status append = gloo_store_append(store, "key", big, sizeof(big), NULL);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_int_equal(set, GLOO_ERR_IO);
  assert_int_equal(append, GLOO_ERR_IO);
  expect_message(&e, "'key'");
  expect_message(&e, directory);
  expect_message(&e, "file too large");
  assert_int_equal(gloo_store_get(store, "key", GLOO_TIMEOUT_NOW, &value, &e),
                   GLOO_OK);
  assert_int_equal(value.bytes, 3);
  assert_memory_equal(value.data, "old", 3);
  free(value.data);
  assert_int_equal(files_in_directory(), files); /* no temporary file remains */
  gloo_store_destroy(store);
}

/* Root may write everywhere, so the child becomes another user. */
static int open_without_permission(int index, void *argument) {
  gloo_store *store;
  gloo_error e;
  (void)index;
  (void)argument;
  if (geteuid() == 0 && setuid(65534) != 0) return 1;
  if (open_file(directory, "", 0, &store, &e) != GLOO_ERR_IO) return 2;
  if (strstr(e.message, directory) == NULL) return 3;
  if (strstr(e.message, "permission denied") == NULL) return 4;
  return 0;
}

static void a_directory_without_permission_is_an_error(void **state) {
  (void)state;
  assert_int_equal(mkdir(directory, 0500), 0);
  if (geteuid() == 0) assert_int_equal(chown(directory, 65534, (gid_t)-1), 0);
  pid_t pid = child_start(open_without_permission, 0, NULL);
  assert_int_equal(child_wait(pid), 0);
  assert_int_equal(chmod(directory, 0700), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(the_directory_is_made_private),
      TEST(names_are_those_of_the_program),
      TEST(one_opening_at_a_time_changes_a_key),
      TEST(a_second_opening_sees_the_same_keys),
      TEST(another_job_or_epoch_is_refused),
      TEST(a_marker_of_something_else_is_refused),
      TEST(the_longest_job_name_works),
      TEST(directories_that_cannot_be_used_are_named),
      TEST(a_symbolic_link_is_refused),
      TEST(a_directory_that_others_may_write_is_refused),
      TEST(a_directory_of_another_user_is_refused),
      TEST(a_directory_that_vanishes_is_an_error),
      TEST(only_regular_files_are_values),
      TEST(a_full_disk_is_an_error_and_keeps_the_old_value),
      TEST(a_directory_without_permission_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
