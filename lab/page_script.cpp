// What the pages do in a browser: controls and what they answer. All else is there without a script.
#include "data/chart.h"
#include "lab/pages.h"

namespace linea::lab {
namespace {

constexpr const char* kScript = R"(
var all=function(root,what){return [].slice.call(root.querySelectorAll(what));};
var add=function(parent,tag,text){
  var made=document.createElement(tag);
  if(tag==='button')made.type='button';
  made.textContent=text||'';parent.append(made);
  return made;
};

all(document,'.run').forEach(function(run){
  if(!navigator.clipboard)return;
  var button=add(run,'button','copy');
  button.onclick=function(){
    navigator.clipboard.writeText(run.querySelector('.command').textContent).then(function(){
      button.textContent='copied';});};
});

// The address has the buttons of the last choice, and chooses them when the page is opened.
var keep=function(choice){
  history.replaceState(null,'','#'+all(choice,'input:checked').map(function(input){return input.id;}).join('+'));
};
document.addEventListener('change',function(event){
  var choice=event.target.closest('.choice');
  if(choice)keep(choice);
});

// A film has a range in the place of its buttons, and plays when a button is pressed.
all(document,'.film').forEach(function(film){
  var inputs=all(film,'input'),fieldset=film.querySelector('fieldset'),timer=0;
  inputs.forEach(function(input){input.hidden=true;input.nextElementSibling.hidden=true;});
  var range=add(fieldset,'input'),output=add(fieldset,'output'),play;
  range.type='range';range.min=1;range.max=inputs.length;
  output.setAttribute('aria-live','off');
  range.setAttribute('aria-label',film.querySelector('legend').textContent);
  var show=function(){
    range.value=inputs.findIndex(function(input){return input.checked;})+1;output.textContent=' '+range.value+' ';};
  var go=function(step){inputs[step-1].checked=true;show();};
  var stop=function(){
    if(timer)keep(film);
    clearInterval(timer);timer=0;if(play)play.textContent='play';};
  range.oninput=function(){stop();go(range.value);};
  film.addEventListener('change',show);
  show();
  if(matchMedia('(prefers-reduced-motion:reduce)').matches)return;
  play=add(fieldset,'button','play');
  play.onclick=function(){
    if(timer)return stop();
    if(+range.value===inputs.length)go(1);
    play.textContent='pause';
    timer=setInterval(function(){
      if(document.hidden||+range.value===inputs.length)return stop();
      go(+range.value+1);},400);};
});

var choose=function(){
  location.hash.slice(1).split('+').forEach(function(id){
    var input=document.getElementById(id);
    if(!input||input.type!=='radio')return;
    input.checked=true;input.dispatchEvent(new Event('change',{bubbles:true}));
    input.closest('.figure').scrollIntoView();});
};

// The value of a cell of a matrix, by its color: cividis in 64 steps, the ends for what is beyond them.
var ramp=[[0,32,76],[20,53,109],[60,77,110],[91,98,110],[124,123,120],[154,147,118],[187,173,108],[221,202,89],[255,233,69]];
var share=function(color){
  var best=0,least=Infinity;
  for(var step=0;step<=64;step++){
    var below=Math.min(step>>3,7),part=step/8-below,far=0;
    for(var c=0;c<3;c++)far+=Math.pow(ramp[below][c]*(1-part)+ramp[below+1][c]*part-color[c],2);
    if(far<least){least=far;best=step;}
  }
  return best/64;
};
var cell=function(image,row,column){
  var canvas=document.createElement('canvas');
  canvas.width=canvas.height=1;
  var context=canvas.getContext('2d');
  context.drawImage(image,-column,-row);
  var least=+image.dataset.least,part=share(context.getImageData(0,0,1,1).data);
  return (part===0?'at most ':part===1?'at least ':'about ')+(least+part*(image.dataset.largest-least)).toPrecision(2);
};
all(document,'.figure').forEach(function(figure){
  var images=all(figure,'img[data-from]');
  if(!images.length)return;
  var line=document.createElement('div'),ranges=['row','column'].map(function(name){
    var label=add(line,'label',name+' '),range=add(label,'input');
    range.type='range';range.min=1;range.value=1;
    return range;
  }),output=add(line,'output');
  line.className='cell';
  output.setAttribute('aria-live','off');
  figure.querySelector('figcaption').before(line);
  var show=function(){
    output.textContent=ranges[0].value+', '+ranges[1].value+': '+images.filter(function(image){
      return image.offsetWidth&&ranges[0].value<=image.naturalHeight&&ranges[1].value<=image.naturalWidth;
    }).map(function(image){
      return image.alt.split(',')[0]+' '+cell(image,ranges[0].value-1,ranges[1].value-1);
    }).join('; ');
  };
  var start=function(){
    ranges[0].max=Math.max.apply(null,images.map(function(image){return image.naturalHeight;}));
    ranges[1].max=Math.max.apply(null,images.map(function(image){return image.naturalWidth;}));
    show();
  };
  ranges.forEach(function(range){range.oninput=show;});
  figure.addEventListener('change',show);
  images.forEach(function(image){
    image.onmousemove=function(event){
      ranges[0].value=Math.floor(event.offsetY/image.clientHeight*image.naturalHeight)+1;
      ranges[1].value=Math.floor(event.offsetX/image.clientWidth*image.naturalWidth)+1;
      show();};
  });
  Promise.all(images.map(function(image){return image.decode();})).then(start);
});

// Answers that are numbers; what is not right opens the next hint.
var words=document.documentElement.lang==='zh'?['检查','对','还不对','答案']:['check','right','not yet','answer'];
all(document,'.question[data-answer]').forEach(function(question){
  var line=document.createElement('div'),input=add(line,'input'),button=add(line,'button',words[0]),output=add(line,'output');
  line.className='answer';
  input.inputMode='decimal';
  input.setAttribute('aria-label',words[3]+' '+question.querySelector('code').textContent);
  question.querySelector('details,:scope>:last-child').before(line);
  var check=function(){
    var text=input.value.normalize('NFKC').trim().replace(/,(?=\d{3}\b)/g,''),right=+question.dataset.answer;
    if(!text)return;
    var ok=Math.abs(text-right)<=question.dataset.share*Math.abs(right);
    output.textContent=' '+words[ok?1:2];
    var hint=question.querySelector('.hint:not([open])');
    if(!ok&&hint)hint.open=true;
  };
  button.onclick=check;
  input.onkeydown=function(event){if(event.key==='Enter')check();};
});
choose();addEventListener('hashchange',choose);
)";

}  // namespace

std::string lab_script() { return chart_script() + kScript; }

}  // namespace linea::lab
