// What a page can do more where scripts run. Everything here has a link or a button without it.

const root = document.documentElement;
const cards = [...document.querySelectorAll(".card")];

// Theme
const toggle = document.querySelector(".theme");
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ?? (prefersDark.matches ? "dark" : "light")) === "dark";
toggle.hidden = false;
toggle.setAttribute("aria-pressed", isDark());
prefersDark.addEventListener("change", () => toggle.setAttribute("aria-pressed", isDark()));
toggle.addEventListener("click", () => {
  const theme = isDark() ? "light" : "dark";
  root.dataset.theme = theme;
  toggle.setAttribute("aria-pressed", theme === "dark");
  try {
    localStorage.setItem("theme", theme);
  } catch {
    // Storage is closed to us: the choice lasts as long as the page.
  }
});

// Lists of papers: dense or with abstracts, as this browser remembers
const markView = (view) => {
  for (const link of document.querySelectorAll("a[data-view]")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
};
const showAs = (view) => {
  root.dataset.view = view;
  for (const list of document.querySelectorAll(".cards")) list.classList.remove("list", "abstracts");
  markView(view);
  fit();
  try {
    localStorage.setItem("view", view);
  } catch {
    // Storage is closed to us: the choice lasts as long as the page.
  }
};
for (const link of document.querySelectorAll("a[data-view]")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    showAs(link.dataset.view);
  });
}

if (root.dataset.view && !document.querySelector(".cards:is(.list, .abstracts)")) markView(root.dataset.view);

// Times: relative to now, absolute on hover
const relative = new Intl.RelativeTimeFormat(root.lang, { numeric: "auto" });
const units = [["year", 31536000], ["month", 2592000], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60]];
const tellTimes = () => {
  for (const time of document.querySelectorAll("time[datetime]")) {
    time.title ||= time.textContent;
    const seconds = (new Date(time.dateTime) - Date.now()) / 1000;
    const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
    time.textContent = unit === "second" ? document.body.dataset.now : relative.format(Math.trunc(seconds / size), unit);
  }
};
tellTimes();
setInterval(tellTimes, 60000);

// Abstracts that are short enough need nothing to press; formulas that are wide need the keyboard
const fit = () => {
  for (const abstract of document.querySelectorAll(".abstract")) {
    const text = abstract.querySelector(".text");
    const open = abstract.querySelector("input").checked;
    const isCut = text.querySelector(".before") || text.scrollHeight > text.clientHeight + 1;
    abstract.classList.toggle("short", !open && !isCut);
  }
  // What scrolls can be reached by the keyboard.
  for (const formula of document.querySelectorAll("math")) {
    const scrolls = formula.scrollWidth > formula.clientWidth && !formula.closest("a");
    if (scrolls) formula.tabIndex = 0;
    else formula.removeAttribute("tabindex");
  }
};
document.fonts.ready.then(fit);
addEventListener("resize", fit);
document.addEventListener("change", (event) => event.target.closest(".abstract") && fit());

// Saving, without leaving the place
const show = (button, pressed) => {
  button.setAttribute("aria-pressed", pressed);
  button.name = pressed ? "clear" : "paper"; // what the next press asks for
};
const press = async (button) => {
  const data = new FormData(button.form);
  data.set(button.name, button.value);
  const answer = await fetch(button.getAttribute("formaction") ?? button.form.action, { method: "POST", body: data, headers: { Accept: "application/json" } });
  if (!answer.ok || answer.redirected) throw new Error(`saving was answered ${answer.status}`);
  const pressed = Object.values(await answer.json())[0];
  // A paper is saved or not for me, never both.
  if (pressed) for (const one of button.parentElement.querySelectorAll("[form=stars]")) show(one, false);
  show(button, pressed);
};
document.getElementById("stars")?.addEventListener("submit", (event) => {
  const form = event.target;
  event.preventDefault();
  press(event.submitter).catch(() => {
    // The form itself can tell the reader what went wrong.
    const field = Object.assign(document.createElement("input"), { type: "hidden", name: event.submitter.name, value: event.submitter.value });
    form.append(field);
    form.action = event.submitter.getAttribute("formaction") ?? form.action;
    form.submit();
  });
});

// Choosing all papers of a page, or none
const chooseAll = document.querySelector("[data-choose]");
if (chooseAll) chooseAll.hidden = false;
chooseAll?.addEventListener("click", () => {
  const boxes = [...document.querySelectorAll("[name=chosen]")];
  const some = boxes.some((box) => !box.checked);
  for (const box of boxes) box.checked = some;
});

// Copying a citation or a command
const offerCopies = () => {
  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;
};
offerCopies();
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  const label = button.lastChild;
  const before = label.textContent;
  label.textContent = document.body.dataset.copied;
  setTimeout(() => (label.textContent = before), 2000);
});

// What htmx has brought, on any page that follows something under way
document.addEventListener("htmx:afterSettle", () => {
  tellTimes();
  offerCopies();
});

// Keys
const keys = document.getElementById("keys");
const current = () => document.activeElement.closest?.(".card") ?? cards.find((card) => card.matches(":target"));
const paper = () => current() ?? document.querySelector("article.paper"); // chosen, or the page's own
const go = (step) => {
  const next = cards[current() ? cards.indexOf(current()) + step : 0];
  next?.closest("details")?.setAttribute("open", "");
  next?.querySelector("h2 a").focus({ preventScroll: true });
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  next?.scrollIntoView({ block: "nearest", behavior: still ? "auto" : "smooth" });
};
const actions = {
  j: () => go(1),
  k: () => go(-1),
  o: () => current()?.querySelector(".abstract input")?.click(),
  v: () => {
    const id = current()?.id.slice(2) ?? document.querySelector("[name=citation_arxiv_id]")?.content;
    if (id) location.href = `https://arxiv.org/abs/${id}`;
  },
  s: () => paper()?.querySelector("button.star")?.click(),
  n: () => paper()?.querySelector("button.leave")?.click(),
  x: () => current()?.querySelector("[name=chosen]")?.click(),
  d: () => showAs(root.dataset.view === "abstracts" ? "list" : "abstracts"),
  "/": () => document.querySelector("#find, #q").focus(),
  "?": () => keys.showModal(),
};
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && location.hash === "#narrow") location.hash = "cards";
  if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
  const field = event.target.closest("input:not([type=checkbox]), textarea, select");
  if (field) {
    if (event.key === "Escape") field.blur();
    return;
  }
  const action = Object.hasOwn(actions, event.key) && actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});
