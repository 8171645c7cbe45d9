// Before the first paint: a reader's own choice of theme and view, so that nothing flashes.
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  if (localStorage.getItem("view") === "abstracts") document.documentElement.dataset.view = "abstracts";
} catch {
  // Storage is closed to us: the system's preference stands.
}
