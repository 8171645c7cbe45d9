// Keywords as rows: phrase, weight and how often it occurs. The text field stays what
// is sent; "Edit as text" shows it, for pasting. Without scripts the text is all there is.

const text = document.getElementById("id_keywords");
const said = document.getElementById("keyword-rows").dataset; // words in the page's language
const counted = JSON.parse(document.getElementById("frequencies").textContent);
const LINE = /^(.*?)\s*;\s*([\d.,]+)\s*(?:;\s*([\d.,]+)\s*)?$/;

const parse = (line) => {
  const [, keyword, weight, bonus] = LINE.exec(line) ?? [null, line, "1", "0.5"];
  return { keyword: keyword.trim(), weight, bonus: bonus ?? "0.5" };
};
const written = ({ keyword, weight, bonus }) => {
  if (bonus !== "0.5") return `${keyword} ; ${weight || 0} ; ${bonus || 0}`;
  return weight === "1" ? keyword : `${keyword} ; ${weight || 0}`;
};
const rarity = (keyword) => {
  const often = counted[keyword];
  if (often === undefined || often === null) return said.uncounted;
  const word = often < 10 ? said.rare : often < 50 ? said.uncommon : said.common;
  return `${said.frequency.replace("{}", often)}${word}`;
};

const template = document.getElementById("keyword-rows").content;
const table = template.querySelector(".keyword-rows").cloneNode(true);
const body = table.querySelector("tbody");

const rows = () =>
  [...body.rows].map((row) => {
    const [keyword, weight] = [...row.querySelectorAll("input")].map((input) => input.value.trim());
    return { keyword, weight, bonus: row.dataset.bonus };
  });
const store = () => {
  text.value = rows().filter((row) => row.keyword).map(written).join("\n");
};
const append = (shown) => {
  const row = template.querySelector("template").content.querySelector("tr").cloneNode(true);
  const [phrase, weight] = row.querySelectorAll("input");
  [phrase.value, weight.value] = [shown.keyword, shown.weight];
  row.dataset.bonus = shown.bonus; // only the text has it
  const often = row.querySelector("span");
  often.textContent = shown.keyword ? rarity(shown.keyword) : "";
  const remove = row.querySelector("button");
  remove.setAttribute("aria-label", `${remove.textContent} ${shown.keyword}`.trim());
  remove.addEventListener("click", () => {
    row.remove();
    store();
  });
  phrase.addEventListener("input", () => (often.textContent = rarity(phrase.value.trim())));
  body.append(row);
  return phrase;
};
const draw = () => {
  body.replaceChildren();
  for (const line of text.value.split("\n")) if (line.trim()) append(parse(line));
  if (!body.rows.length) append(parse(""));
};

table.addEventListener("input", store);
table.querySelector("[data-add]").addEventListener("click", () => append(parse("")).focus());
table.querySelector("[data-text]").addEventListener("click", (event) => {
  const asText = text.hidden;
  if (!asText) draw();
  text.hidden = !asText;
  table.querySelector("table").hidden = asText;
  table.querySelector("[data-add]").hidden = asText;
  event.target.textContent = asText ? said.rows : said.text;
  event.target.setAttribute("aria-expanded", asText);
});
draw();
text.hidden = true;
text.before(table);
