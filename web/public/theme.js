// Before the first paint, so that no page flashes in the other theme.
(function () {
  try {
    var theme = localStorage.getItem("fettle-theme");
    if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  } catch (_) {
    // Storage may be denied; the system's theme holds then.
  }
})();
