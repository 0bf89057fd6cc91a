#include "tests/sanitized.h"

namespace linea {

#ifdef LINEA_NAN_FILL
const bool kSanitized = true;
#else
const bool kSanitized = false;
#endif

}  // namespace linea
