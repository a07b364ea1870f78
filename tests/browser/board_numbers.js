// Of every row of a board what its cells say, in lines.
() => [...document.querySelectorAll("#board > tbody > tr:not(.detail)")].map((tr) => [
  tr.querySelector("th").dataset.name,
  Object.fromEntries([...tr.querySelectorAll("td[data-key]")].map((td) => [td.dataset.key, td.innerText.split("\n")])),
])
