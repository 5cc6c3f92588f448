/* Layout on the wire, little endian:
 *    0 magic         4 type, eager, collective, dtype
 *    8 op, algorithm, form, tuning   12 context    16 tag    20 slot
 *   24 root         28 credit        32 operation  40 count  48 length
 *   56 zero; with checksums: of all other bytes    60 of the payload */
#include "transport/header.h"

#include "core/bytes.h"
#include "core/crc32c.h"

#define MAGIC UINT32_C(0x324d4c47)         /* "GLM2" */
#define MAGIC_CHECKED UINT32_C(0x32736d67) /* "gms2" */
#define ABORT_LENGTH_MAX UINT64_C(4096)
#define MEMBERS_LENGTH_MAX UINT64_C(65536)

void gli_header_encode(const gli_header *header,
                       uint8_t out[GLI_HEADER_BYTES]) {
  gli_put_u32(out, MAGIC);
  out[4] = header->type;
  out[5] = header->eager;
  out[6] = header->collective;
  out[7] = header->dtype;
  out[8] = header->op;
  out[9] = header->algorithm;
  out[10] = header->form;
  out[11] = header->tuning;
  gli_put_u32(out + 12, header->context);
  gli_put_u32(out + 16, header->tag);
  gli_put_u32(out + 20, header->slot);
  gli_put_u32(out + 24, header->root);
  gli_put_u32(out + 28, header->credit);
  gli_put_u64(out + 32, header->operation);
  gli_put_u64(out + 40, header->count);
  gli_put_u64(out + 48, header->length);
  gli_put_u64(out + 56, 0);
}

static uint64_t longest_payload(uint8_t type) {
  if (type == GLI_MESSAGE_DATA || type == GLI_MESSAGE_RMA)
    return GLI_LENGTH_MAX;
  if (type == GLI_MESSAGE_ABORT) return ABORT_LENGTH_MAX;
  if (type == GLI_MESSAGE_LINK) return GLI_LINK_LENGTH_MAX;
  if (type == GLI_MESSAGE_MEMBERS) return MEMBERS_LENGTH_MAX;
  return 0;
}

static bool form_fits(const gli_header *header) {
  if (header->form == GLI_FORM_BYTES) return true;
  if (header->type != GLI_MESSAGE_DATA) return false;
  if (gli_form_has_rkey(header->form)) return header->length == GLI_RKEY_BYTES;
  return header->form == GLI_FORM_PUT_DONE && header->length == 0;
}

bool gli_header_valid_other(const gli_header *header) {
  if (header->type < GLI_MESSAGE_DATA || header->type >= GLI_MESSAGE_TYPES)
    return false;
  return form_fits(header) && header->length <= longest_payload(header->type);
}

bool gli_header_decode(const uint8_t in[GLI_HEADER_BYTES], gli_header *header) {
  if (gli_get_u32(in) != MAGIC) return false;
  if (in[5] > 1 || in[10] >= GLI_FORMS || gli_get_u64(in + 56) != 0)
    return false;
  *header = (gli_header){
      .type = in[4],
      .eager = in[5] & 1u,
      .collective = in[6],
      .dtype = in[7],
      .op = in[8],
      .algorithm = in[9],
      .form = in[10] & 0x7fu,
      .tuning = in[11],
      .context = gli_get_u32(in + 12),
      .tag = gli_get_u32(in + 16),
      .slot = gli_get_u32(in + 20),
      .root = gli_get_u32(in + 24),
      .credit = gli_get_u32(in + 28),
      .operation = gli_get_u64(in + 32),
      .count = gli_get_u64(in + 40),
      .length = gli_get_u64(in + 48),
  };
  return gli_header_valid(header);
}

/* ---- with checksums ------------------------------------------------------ */

enum { AT_SUM = 56, AT_PAYLOAD_SUM = 60 };

static uint32_t header_sum_of(const uint8_t header[GLI_HEADER_BYTES]) {
  uint32_t sum = gli_crc32c(0, header, AT_SUM);
  return gli_crc32c(sum, header + AT_PAYLOAD_SUM,
                    GLI_HEADER_BYTES - AT_PAYLOAD_SUM);
}

void gli_header_encode_checked(const gli_header *header, uint32_t payload_sum,
                               uint8_t out[GLI_HEADER_BYTES]) {
  gli_header_encode(header, out);
  gli_put_u32(out, MAGIC_CHECKED);
  gli_put_u32(out + AT_PAYLOAD_SUM, payload_sum);
  gli_put_u32(out + AT_SUM, header_sum_of(out));
}

bool gli_header_decode_checked(const uint8_t in[GLI_HEADER_BYTES],
                               gli_header *header, uint32_t *payload_sum) {
  if (gli_get_u32(in) != MAGIC_CHECKED) return false;
  if (gli_get_u32(in + AT_SUM) != header_sum_of(in)) return false;
  uint8_t plain[GLI_HEADER_BYTES] = {0};
  memcpy(plain, in, AT_SUM);
  gli_put_u32(plain, MAGIC);
  if (!gli_header_decode(plain, header)) return false;
  *payload_sum = gli_get_u32(in + AT_PAYLOAD_SUM);
  return true;
}
