/* Users, and rights of files, by security identifiers. */
#include "windows/posix.h"

#undef BOOL
#undef FLOAT
#undef LONG
#undef SHORT
#undef SIZE
#undef WORD
#include <aclapi.h>
#include <sddl.h>

typedef union identity {
  TOKEN_USER user;
  uint8_t room[256];
} identity;

static bool user_of(HANDLE token, identity *is) {
  DWORD bytes = 0;
  return GetTokenInformation(token, TokenUser, is, sizeof *is, &bytes);
}

static bool user_get(identity *is) {
  return user_of(GetCurrentProcessToken(), is);
}

static bool is_system(PSID one) {
  return IsWellKnownSid(one, WinLocalSystemSid) ||
         IsWellKnownSid(one, WinBuiltinAdministratorsSid);
}

static uint32_t user_number(PSID one) {
  uint32_t hash = UINT32_C(2166136261);
  const uint8_t *bytes = one;
  DWORD n = GetLengthSid(one);
  if (is_system(one)) return 0;
  for (DWORD i = 0; i < n; i++) hash = (hash ^ bytes[i]) * 16777619u;
  return hash > 0 && hash < UINT32_MAX ? hash : 1; /* the greatest: none */
}

uid_t geteuid(void) {
  identity is;
  return user_get(&is) ? user_number(is.user.User.Sid) : UINT32_MAX;
}

int getpeereid(int fd, uid_t *user, gid_t *group) {
  (void)fd;
  *user = *group = UINT32_MAX;
  errno = ENOSYS;
  return -1;
}

bool gli_windows_is_own_user(HANDLE process) {
  identity its, ours;
  HANDLE token;
  if (!OpenProcessToken(process, TOKEN_QUERY, &token)) return false;
  bool known = user_of(token, &its);
  (void)CloseHandle(token);
  return known && user_get(&ours) &&
         EqualSid(its.user.User.Sid, ours.user.User.Sid);
}

bool gli_windows_is_own_object(HANDLE object) {
  union {
    SECURITY_DESCRIPTOR is;
    uint8_t room[sizeof(SECURITY_DESCRIPTOR) + SECURITY_MAX_SID_SIZE];
  } descriptor;
  identity ours;
  DWORD bytes;
  PSID owner;
  BOOL by_default;
  return GetKernelObjectSecurity(object, OWNER_SECURITY_INFORMATION,
                                 &descriptor, sizeof descriptor, &bytes) &&
         GetSecurityDescriptorOwner(&descriptor, &owner, &by_default) &&
         owner != NULL && user_get(&ours) &&
         EqualSid(owner, ours.user.User.Sid);
}

/* ---- rights -------------------------------------------------------------- */

static SECURITY_ATTRIBUTES private_attributes;

/* Makes an access list with this user and the system. Files in a directory
 * inherit it. It names the owner, because files of an administrator otherwise
 * belong to all administrators. */
static BOOL CALLBACK private_make(INIT_ONCE *once, void *unused,
                                  void **result) {
  identity is;
  wchar_t *name = NULL, text[512];
  (void)once;
  (void)unused;
  (void)result;
  if (!user_get(&is) || !ConvertSidToStringSidW(is.user.User.Sid, &name))
    return FALSE;
  (void)_snwprintf(text, sizeof text / sizeof text[0],
                   L"O:%lsD:P(A;OICI;FA;;;%ls)(A;OICI;FA;;;SY)", name, name);
  (void)LocalFree(name);
  private_attributes.nLength = sizeof private_attributes;
  return ConvertStringSecurityDescriptorToSecurityDescriptorW(
      text, SDDL_REVISION_1, &private_attributes.lpSecurityDescriptor, NULL);
}

bool gli_windows_private(int mode, SECURITY_ATTRIBUTES **only) {
  static INIT_ONCE once = INIT_ONCE_STATIC_INIT;
  *only = NULL;
  if ((mode & 077) != 0) return true;
  if (!InitOnceExecuteOnce(&once, private_make, NULL, NULL)) return false;
  *only = &private_attributes;
  return true;
}

/* Returns the mode's bits for what an entry allows to another user. */
static unsigned rights_of(const ACCESS_ALLOWED_ACE *entry) {
  const DWORD reads = FILE_READ_DATA | GENERIC_READ | GENERIC_ALL;
  const DWORD writes = FILE_WRITE_DATA | FILE_APPEND_DATA | FILE_DELETE_CHILD |
                       DELETE | WRITE_DAC | WRITE_OWNER | GENERIC_WRITE |
                       GENERIC_ALL;
  BYTE type = entry->Header.AceType;
  if (type == ACCESS_DENIED_ACE_TYPE ||
      (entry->Header.AceFlags & INHERIT_ONLY_ACE) != 0)
    return 0;
  if (type != ACCESS_ALLOWED_ACE_TYPE) return 06; /* depends on conditions */
  return ((entry->Mask & reads) != 0 ? 04u : 0) |
         ((entry->Mask & writes) != 0 ? 02u : 0);
}

static bool is_owner(PSID one, PSID owner) {
  return EqualSid(one, owner) || is_system(one) ||
         IsWellKnownSid(one, WinCreatorOwnerRightsSid);
}

bool gli_windows_rights(HANDLE file, uid_t *owner, unsigned *mode) {
  PSID of = NULL;
  PACL list = NULL;
  PSECURITY_DESCRIPTOR all = NULL;
  DWORD code =
      GetSecurityInfo(file, SE_FILE_OBJECT,
                      OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION,
                      &of, NULL, &list, NULL, &all);
  SetLastError(code);
  if (code != ERROR_SUCCESS) return false;
  *mode = list != NULL ? 0600 : 0606; /* no list: all may do all */
  *owner = user_number(of);
  for (DWORD i = 0; list != NULL && i < list->AceCount; i++) {
    void *at;
    if (!GetAce(list, i, &at)) {
      *mode = 0606;
      break;
    }
    ACCESS_ALLOWED_ACE *entry = at;
    if (entry->Header.AceType != ACCESS_ALLOWED_ACE_TYPE ||
        !is_owner(&entry->SidStart, of))
      *mode |= rights_of(entry);
  }
  (void)LocalFree(all);
  return true;
}
