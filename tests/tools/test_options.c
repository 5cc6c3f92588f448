/* The option parser. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
/* cmocka.h wants those above first */
#include <cmocka.h>

#include "tools/options.h"

static bool flag;
static const char *text;
static int64_t integer;
static uint64_t bytes;
static double seconds;

static const gli_option options[] = {
    {"flag", 'f', GLI_OPTION_FLAG, &flag, NULL, "", 0, 0},
    {"text", 't', GLI_OPTION_TEXT, &text, "TEXT", "", 0, 0},
    {"integer", 'i', GLI_OPTION_INTEGER, &integer, "N", "", -5, 10},
    {"bytes", 0, GLI_OPTION_BYTES, &bytes, "BYTES", "", 1, 1 << 20},
    {"seconds", 0, GLI_OPTION_SECONDS, &seconds, "S", "", 0, 60},
};

enum { MAX_WORDS = 16 };
static char *words[MAX_WORDS];
static int n_operands;

/* Parses a line of words, and forgets the previous one. */
static gli_parse parse(const char *line, bool stop_at_operand) {
  static char copy[256];
  gli_command command = {.name = "test",
                         .usage = "",
                         .about = "",
                         .options = options,
                         .n_options = sizeof options / sizeof options[0],
                         .stop_at_operand = stop_at_operand};
  flag = false;
  text = NULL;
  integer = 0;
  bytes = 0;
  seconds = 0;
  strcpy(copy, line);
  int count = 0;
  words[count++] = (char *)(uintptr_t) "test";
  for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) {
    words[count++] = word;
  }
  return gli_options_parse(&command, count, words, &n_operands);
}

static void values_of_all_kinds(void **state) {
  (void)state;
  assert_int_equal(parse("--flag --text a --integer -5 --bytes 16K "
                         "--seconds 0.25",
                         false),
                   GLI_PARSE_OK);
  assert_true(flag);
  assert_string_equal(text, "a");
  assert_int_equal(integer, -5);
  assert_int_equal(bytes, 16 << 10);
  assert_true(seconds == 0.25);
  assert_int_equal(n_operands, 0);
}

static void attached_values(void **state) {
  (void)state;
  assert_int_equal(parse("-f -i7 --text=b=c", false), GLI_PARSE_OK);
  assert_true(flag);
  assert_int_equal(integer, 7);
  assert_string_equal(text, "b=c");
}

static void operands_anywhere(void **state) {
  (void)state;
  assert_int_equal(parse("x -f y -- -f", false), GLI_PARSE_OK);
  assert_int_equal(n_operands, 3);
  assert_string_equal(words[0], "x");
  assert_string_equal(words[1], "y");
  assert_string_equal(words[2], "-f");
}

static void operands_that_end_the_options(void **state) {
  (void)state;
  assert_int_equal(parse("-i 1 x -f -- y", true), GLI_PARSE_OK);
  assert_false(flag);
  assert_int_equal(n_operands, 4);
  assert_string_equal(words[0], "x");
  assert_string_equal(words[1], "-f");
  assert_string_equal(words[2], "--");
}

static void bad_values(void **state) {
  (void)state;
  static const char *const lines[] = {"--integer 11",
                                      "--integer -6",
                                      "--integer 1x",
                                      "--integer",
                                      "--integer=",
                                      "--bytes 0",
                                      "--bytes 2M",
                                      "--bytes 1Q",
                                      "--bytes -1",
                                      "--bytes 1KK",
                                      "--seconds 0",
                                      "--seconds -1",
                                      "--seconds 61",
                                      "--seconds inf",
                                      "--seconds nan",
                                      "--seconds 1s",
                                      "--flag=1",
                                      "--integers 1",
                                      "--int 1",
                                      "-x",
                                      "--text",
                                      "--bytes 99999999999999999999",
                                      "-f1"};
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    assert_int_equal(parse(lines[i], false), GLI_PARSE_BAD);
  }
}

static void help_is_asked_for(void **state) {
  (void)state;
  /* The help must not appear among the results. */
  fflush(stdout);
  int kept = dup(STDOUT_FILENO), quiet = open("/dev/null", O_WRONLY);
  assert_true(kept >= 0 && quiet >= 0);
  dup2(quiet, STDOUT_FILENO);
  gli_parse first = parse("--help", false), second = parse("-f -h", false);
  fflush(stdout);
  dup2(kept, STDOUT_FILENO);
  close(kept);
  close(quiet);
  assert_int_equal(first, GLI_PARSE_HELP);
  assert_int_equal(second, GLI_PARSE_HELP);
}

static void sizes_as_text(void **state) {
  (void)state;
  static const char *const texts[] = {"0",    "1",  "1023", "1K",
                                      "1025", "3M", "7G",   "1024G"};
  char text_again[GLI_BYTES_TEXT];
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    uint64_t value;
    assert_true(gli_parse_bytes(texts[i], &value));
    assert_string_equal(gli_format_bytes(value, text_again), texts[i]);
  }
  uint64_t value;
  assert_true(gli_parse_bytes("4KiB", &value));
  assert_int_equal(value, 4096);
  assert_false(gli_parse_bytes("9223372036854775808", &value));
  assert_false(gli_parse_bytes("8589934592G", &value));
  assert_false(gli_parse_bytes("", &value));
  assert_false(gli_parse_bytes(" 4", &value));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_of_all_kinds),
      cmocka_unit_test(attached_values),
      cmocka_unit_test(operands_anywhere),
      cmocka_unit_test(operands_that_end_the_options),
      cmocka_unit_test(bad_values),
      cmocka_unit_test(help_is_asked_for),
      cmocka_unit_test(sizes_as_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
