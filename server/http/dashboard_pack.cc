// SPDX-License-Identifier: Apache-2.0
#include "server/http/assets.h"

#ifdef FETTLE_DASHBOARD
#include "server/http/dashboard_data.h"
#endif

namespace fettle {

std::string_view DashboardPack() {
#ifdef FETTLE_DASHBOARD
  return DashboardFiles()[0].bytes;
#else
  return {};
#endif
}

}  // namespace fettle
