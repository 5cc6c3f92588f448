/* Characters that are removed from text before it is shown, and others that
 * stay; plurals, and the distance of words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

static void expect(const char *text, const char *expected) {
  char copy[64];
  snprintf(copy, sizeof copy, "%s", text);
  gli_make_printable(copy);
  assert_string_equal(copy, expected);
}

static void ordinary_text_stays(void **state) {
  (void)state;
  expect("", "");
  expect("rank 1 of 2: ~/a\\b", "rank 1 of 2: ~/a\\b");
  /* U+00A0, U+00E9, U+07FF, U+0800, U+20AC, U+FFFD, U+10000, U+10FFFF */
  const char *all =
      "\xc2\xa0 \xc3\xa9 \xdf\xbf \xe0\xa0\x80 \xe2\x82\xac \xef\xbf\xbd "
      "\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf";
  expect(all, all);
  /* The later bytes are those of control characters. */
  expect("\xc4\x9b\xe2\x80\x9b", "\xc4\x9b\xe2\x80\x9b");
}

static void control_characters_of_ascii_go(void **state) {
  (void)state;
  for (int c = 1; c < 0x100; c++) {
    char text[] = {'a', (char)c, 'b', '\0'};
    bool goes = c < 0x20 || (c >= 0x7f && c < 0xa0);
    if (!goes) {
      expect(text, text);
    } else {
      expect(text, "a b");
    }
  }
}

static void later_ones_go_in_utf8_too(void **state) {
  (void)state;
  for (int c = 0x80; c < 0xc0; c++) {
    char text[] = {'a', '\xc2', (char)c, 'b', '\0'};
    expect(text, c < 0xa0 ? "a  b" : text);
  }
}

/* Invalid UTF-8 must not hide a control character from a lenient decoder. */
static void they_do_not_hide_in_broken_utf8(void **state) {
  (void)state;
  expect("\xc0\x9b", "\xc0 ");                 /* too long for U+001B */
  expect("\xe0\x82\x9b", "\xe0  ");            /* ... and for U+009B */
  expect("\xf0\x80\x82\x9b", "\xf0   ");       /* ... once more */
  expect("\xe2\x9b", "\xe2 ");                 /* cut off by the end */
  expect("\xe2\x82\x9b\x9b", "\xe2\x82\x9b "); /* one too many */
  expect(
      "\xe2\x9b"
      "A",
      "\xe2 A");                            /* cut off by a letter */
  expect("\xe2\xc2\x9b", "\xe2  ");         /* ... by another */
  expect("\xed\xa0\x80", "\xed\xa0 ");      /* half a pair of UTF-16 */
  expect("\xf4\x90\x80\x80", "\xf4   ");    /* beyond the last one */
  expect("\xff\x9d\xfe\x90", "\xff \xfe "); /* no first bytes */
}

/* ---- parts of messages --------------------------------------------------- */

static void nouns_have_their_number(void **state) {
  (void)state;
  assert_string_equal(gli_count(0, "rank").text, "0 ranks");
  assert_string_equal(gli_count(1, "rank").text, "1 rank");
  assert_string_equal(gli_count(2, "rank").text, "2 ranks");
  assert_string_equal(gli_count(1, "process").text, "1 process");
  assert_string_equal(gli_count(UINT64_MAX, "process").text,
                      "18446744073709551615 processes");
}

static void words_have_a_distance(void **state) {
  (void)state;
  assert_int_equal(gli_word_distance("bench", "bench"), 0);
  assert_int_equal(gli_word_distance("", "run"), 3);
  assert_int_equal(gli_word_distance("run", ""), 3);
  assert_int_equal(gli_word_distance("prefx", "prefix"), 1);
  assert_int_equal(gli_word_distance("prefiix", "prefix"), 1);
  assert_int_equal(gli_word_distance("bnech", "bench"), 2);
  char longest[65] = "";
  memset(longest, 'a', 63);
  assert_int_equal(gli_word_distance("b", longest), 63);
  longest[63] = 'a'; /* too long to compare */
  assert_int_equal(gli_word_distance(longest, longest), 64);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ordinary_text_stays),
      cmocka_unit_test(control_characters_of_ascii_go),
      cmocka_unit_test(later_ones_go_in_utf8_too),
      cmocka_unit_test(they_do_not_hide_in_broken_utf8),
      cmocka_unit_test(nouns_have_their_number),
      cmocka_unit_test(words_have_a_distance),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
