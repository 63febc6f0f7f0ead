// Runs at the end of the report page, in a frame, and tells the page around it what the browser made of it.
const errors = [];
addEventListener('error', event => errors.push(String(event.message ?? event.target)), true);
console.error = (...words) => errors.push(words.join(' '));

// What stands for results: bars and lines. Axes and grids are thinner.
const MARKS = "rect, circle, path, polyline[stroke-width='2']";

// Words that numbers become which are none.
const NO_NUMBER = /\b(NaN|Infinity|inf|undefined)\b/;

function chart(svg) {
  const { width, height } = svg.viewBox.baseVal;
  const isWithin = box =>
    [box.x, box.y, box.width, box.height].every(Number.isFinite) &&
    box.width + box.height > 0 &&
    box.x > -1 && box.y > -1 && box.x + box.width < width + 1 && box.y + box.height < height + 1;
  const marks = [...svg.querySelectorAll(MARKS)].map(mark => mark.getBBox());
  const shown = svg.getBoundingClientRect();
  return {
    title: svg.querySelector('title')?.textContent ?? '',
    width: Math.round(shown.width),
    height: Math.round(shown.height),
    left: Math.round(shown.left + scrollX),
    top: Math.round(shown.top + scrollY),
    marks: marks.length,
    drawn: marks.filter(isWithin).length,
  };
}

function map(table) {
  return { caption: table.caption.textContent, shaded: table.querySelectorAll('td[style]').length };
}

function noNumbers() {
  const attributes = [...document.querySelectorAll('main *')].flatMap(element => [...element.attributes]);
  const found = attributes.filter(one => NO_NUMBER.test(one.value)).map(one => `${one.name}=${one.value}`);
  return found.concat(document.querySelector('main').textContent.match(NO_NUMBER) ?? []);
}

addEventListener('load', () => {
  const page = document.scrollingElement;
  const told = {
    charts: [...document.querySelectorAll('svg')].map(chart),
    maps: [...document.querySelectorAll('table.heat')].map(map),
    sections: [...document.querySelectorAll('h2')].map(heading => heading.textContent),
    no_numbers: noNumbers(),
    errors,
    wide: page.scrollWidth,
    tall: page.scrollHeight,
    window: page.clientWidth,
    ink: getComputedStyle(document.body).color,
  };
  parent.postMessage(JSON.stringify(told), '*');
});
